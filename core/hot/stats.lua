-- Every term of an item's scores, at one instant.
--
-- KEYS 1 hot:pv:{id}  2 hot:uv:hll:{id}  3 hot:dwell:sum:{id}  4 hot:dwell:cnt:{id}  5 hot:first_ts:{id}  6 item:{id}  7 hot:views:{id}
--      8 hot:uv:{id}:{yyyymmdd}  9 hot:rank  10 hot:score
-- ARGV 1 id
-- Returns {now, pv, uv, sum, cnt, first, views pv, views total, uv today, z, rank, score, views rank}; '' for what is not there; ranks from 0.
local now = redis.call('TIME')[1]
local had = redis.call('MGET', KEYS[1], KEYS[3], KEYS[4], KEYS[5])
local item = redis.call('HMGET', KEYS[6], 'published_at', 'early', 'uv_less')
local views = redis.call('HMGET', KEYS[7], 'pv', 'total')
local first = item[2] or item[1] or had[4] or ''
if first ~= '' and tonumber(first) > tonumber(now) then first = now end
local uv = math.max(0, redis.call('PFCOUNT', KEYS[2]) - (had[1] and item[3] or 0))
local out = {now, had[1] or '', tostring(uv), had[2] or '', had[3] or '', first,
  views[1] or '', views[2] or '', tostring(redis.call('SCARD', KEYS[8])), '', '', '', ''}
for i = 0, 1 do
  local rank = KEYS[9 + i]
  local score = redis.call('ZSCORE', rank, ARGV[1])
  if score then
    out[10 + 2 * i] = score
    out[11 + 2 * i] = tostring(redis.call('ZREVRANK', rank, ARGV[1]))
  end
end
return out
