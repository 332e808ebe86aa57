-- Notes what a visitor added to articles' counters (core/hot/added.h). A batch that comes twice, as one without a reply does, is noted once: the last
-- batches are named in the field "batches".
--
-- KEYS 1 hot:added:{visitor}
-- ARGV 1 for how many s it is remembered  2 the batch's name, 8 bytes  3 the network or ''  4 events beyond limits.uv_per_network  then for each
--      article: id  page views · 2^42 + ms of dwell  its page views
--      visitors  views · 2^31 + first views of a day  their score
-- Returns 1, or 0 for a batch that was noted.
--
-- One integer field an article. A visitor adds to UV what the estimate rises by, which is 1 with the first page view; what is more or less than that,
-- as among thousands, has a field of its own. Each new article renews the TTL. An overflow (two million page views of an item) is not noted.
local call, added = redis.call, KEYS[1]
local batches = call('HGET', added, 'batches') or ''
for at = 1, #batches, 8 do
  if batches:sub(at, at + 7) == ARGV[2] then return 0 end
end
local new = batches == ''
for i = 5, #ARGV, 6 do
  local id, read, pv, uv, viewed, score = ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3], ARGV[i + 4], ARGV[i + 5]
  local usual = 0
  if read ~= '0' then
    local all = redis.pcall('HINCRBY', added, 't:' .. id, read)
    if type(all) == 'number' then
      if pv ~= '0' and math.floor(all / 4398046511104) == pv + 0 then usual = 1 end
      new = new or all == read + 0
    end
  end
  if uv - usual ~= 0 then call('HINCRBY', added, 'u:' .. id, uv - usual) end
  if viewed ~= '0' then
    new = call('HINCRBY', added, 'v:' .. id, viewed) == viewed + 0 or new
    call('HINCRBYFLOAT', added, 's:' .. id, score)
  end
end
local about = {'batches', (batches .. ARGV[2]):sub(-128)}
if ARGV[3] ~= '' then about[3], about[4] = 'network', ARGV[3] end
call('HSET', added, unpack(about))
if ARGV[4] ~= '0' then call('HINCRBY', added, 'beyond', ARGV[4]) end
if new then call('EXPIRE', added, ARGV[1]) end
return 1
