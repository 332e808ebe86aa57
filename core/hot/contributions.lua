-- Records visitors' contributions to articles' counters (core/hot/contributions.h). A batch that
-- arrives twice, as when its reply was lost, is recorded once: the first visitor's field "batches"
-- holds the names of the last batches. A visitor whose key has another type is skipped.
--
-- KEYS 1… hot:added:{visitor} of each, by slot_or_zero()
-- ARGV 1 TTL s  2 the batch's name, 8 bytes  then for each visitor: the network or ''
--      number of articles  and for each article: id  page views · 2^42 + dwell ms  its page views
--      visitors  views · 2^31 + first views of a day  their score
-- Returns 1, or 0 for a batch that was recorded before.
--
-- One integer field per article. A visitor adds to UV the increase of the estimate, which is
-- usually 1 with the first page view; any difference from that, as with thousands of visitors, has
-- a field of its own. Each new article renews the TTL. An overflow (two million page views of an
-- item) is not recorded.
local first = KEYS[1]
local batches = redis.pcall('HGET', first, 'batches')
if type(batches) == 'string' then
  for at = 1, #batches, 8 do
    if batches:sub(at, at + 7) == ARGV[2] then return 0 end
  end
end

local function record(key, at, articles)
  local is_new = false
  for i = at + 2, at + 6 * articles, 6 do
    local id, packed_reads, pv, uv, packed_views, score = unpack(ARGV, i, i + 5)
    local expected_uv = 0
    if packed_reads ~= '0' then
      local total = redis.pcall('HINCRBY', key, 't:' .. id, packed_reads)
      if type(total) == 'number' then
        if pv ~= '0' and floor(total / 4398046511104) == pv + 0 then expected_uv = 1 end
        is_new = is_new or total == packed_reads + 0
      end
    end
    if uv - expected_uv ~= 0 then is_new = call('HINCRBY', key, 'u:' .. id, uv - expected_uv) == uv - expected_uv or is_new end
    if packed_views ~= '0' then
      is_new = call('HINCRBY', key, 'v:' .. id, packed_views) == packed_views + 0 or is_new
      call('HINCRBYFLOAT', key, 's:' .. id, score)
    end
  end
  if ARGV[at] ~= '' then call('HSET', key, 'network', ARGV[at]) end
  if is_new then call('EXPIRE', key, ARGV[1]) end
end

local at = 3
for _, key in ipairs(KEYS) do
  local articles = tonumber(ARGV[at + 1])
  pcall(record, key, at, articles)
  at = at + 2 + 6 * articles
end
if type(batches) ~= 'table' then call('HSET', first, 'batches', ((batches or '') .. ARGV[2]):sub(-128)) end
return 1
