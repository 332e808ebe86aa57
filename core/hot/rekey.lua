-- The rank key of one item, from its counters: for rebuilding hot:rank.
--
-- KEYS 1 hot:pv:{id}  2 hot:uv:hll:{id}  3 hot:dwell:sum:{id}  4 hot:dwell:cnt:{id}  5 hot:first_ts:{id}  6 item:{id}
--      7 hot:rank or hot:rank:next
-- ARGV 1 id  2 the formula's parameters
-- Returns z as %.17g, or '-' for an item that has no place (hidden, or without counters).
local had = redis.call('MGET', KEYS[1], KEYS[3], KEYS[4], KEYS[5])
local item = redis.call('HMGET', KEYS[6], 'published_at', 'hidden', 'early', 'uv_less')
local pv, sum, cnt = tonumber(had[1] or 0), tonumber(had[2] or 0), tonumber(had[3] or 0)
local now = tonumber(redis.call('TIME')[1])
local first = math.min(tonumber(item[3] or item[1] or had[4] or nil) or now, now)
local formula = ARGV[2]
--@include formula
local uv = math.max(0, redis.call('PFCOUNT', KEYS[2]) - (item[4] or 0))
--@include engagement_key
if pv == 0 or item[2] == '1' or not z then
  redis.call('ZREM', KEYS[7], ARGV[1])
  return '-'
end
local text = string.format('%.17g', z)
redis.call('ZADD', KEYS[7], text, ARGV[1])
return text
