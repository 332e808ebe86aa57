-- Notes what visitors added to articles' counters (core/hot/contributions.h). A batch that comes twice, as one without a reply does, is noted once: the last
-- batches are named in the first visitor's field "batches". A visitor whose key is of another type is passed over.
--
-- KEYS 1… hot:added:{visitor} of each, by slot_or_zero()
-- ARGV 1 for how many s it is remembered  2 the batch's name, 8 bytes  then for each visitor: the network or ''  events beyond
--      limits.uv_per_network  how many articles  and for each article: id  page views · 2^42 + ms of dwell  its page views  visitors
--      views · 2^31 + first views of a day  their score
-- Returns 1, or 0 for a batch that was noted.
--
-- One integer field an article. A visitor adds to UV what the estimate rises by, which is 1 with the first page view; what is more or less than that,
-- as among thousands, has a field of its own. Each new article renews the TTL. An overflow (two million page views of an item) is not noted.
local first = KEYS[1]
local batches = redis.pcall('HGET', first, 'batches')
if type(batches) == 'string' then
  for at = 1, #batches, 8 do
    if batches:sub(at, at + 7) == ARGV[2] then return 0 end
  end
end

local function note(added, at, articles)
  local new = false
  for i = at + 3, at + 6 * articles, 6 do
    local id, read, pv, uv, viewed, score = unpack(ARGV, i, i + 5)
    local usual = 0
    if read ~= '0' then
      local all = redis.pcall('HINCRBY', added, 't:' .. id, read)
      if type(all) == 'number' then
        if pv ~= '0' and floor(all / 4398046511104) == pv + 0 then usual = 1 end
        new = new or all == read + 0
      end
    end
    if uv - usual ~= 0 then new = call('HINCRBY', added, 'u:' .. id, uv - usual) == uv - usual or new end
    if viewed ~= '0' then
      new = call('HINCRBY', added, 'v:' .. id, viewed) == viewed + 0 or new
      call('HINCRBYFLOAT', added, 's:' .. id, score)
    end
  end
  if ARGV[at] ~= '' then call('HSET', added, 'network', ARGV[at]) end
  if ARGV[at + 1] ~= '0' then call('HINCRBY', added, 'beyond', ARGV[at + 1]) end
  if new then call('EXPIRE', added, ARGV[1]) end
end

local at = 3
for _, added in ipairs(KEYS) do
  local articles = tonumber(ARGV[at + 2])
  pcall(note, added, at, articles)
  at = at + 3 + 6 * articles
end
if type(batches) ~= 'table' then call('HSET', first, 'batches', ((batches or '') .. ARGV[2]):sub(-128)) end
return 1
