-- Takes back what a visitor added to one item's counters. Repeated it takes nothing: what was remembered goes with it.
--
-- KEYS 1 hot:added:{visitor}  2 hot:pv:{id}  3 hot:uv:hll:{id}  4 hot:dwell:sum:{id}  5 hot:dwell:cnt:{id}  6 hot:first_ts:{id}  7 item:{id}
--      8 hot:views:{id}  9 hot:score  10 hot:published  11 hot:current:{hour} of ARGV 2  12 hot:rank
-- ARGV 1 id  2 its publish time as the caller read it (the item's, else hot:first_ts)  3…6 fields t u v s of the item in KEYS 1 likewise, '' for none
--      7 pv  8 uv  9 dwell ms, of KEYS 1  10 total  11 score, of views  12 views
--      13 the formula's parameters
-- Returns 1, or 0 when it is not as the caller read it (nothing is written).
--
-- A HyperLogLog forgets nobody: the item's `uv_less` says by how many its estimate is too high. Who comes again after a purge is in there, and
-- does not count as a visitor again while it lives. An item with no page view left loses it, and the others with it.
local id, added = ARGV[1], KEYS[1]
local item = redis.call('HMGET', KEYS[7], 'published_at', 'uv_less', 'early')
if (item[1] or redis.call('GET', KEYS[6]) or '') ~= ARGV[2] then return 0 end
local fields = {'t:' .. id, 'u:' .. id, 'v:' .. id, 's:' .. id}
local had = redis.call('HMGET', added, unpack(fields))
for i = 1, 4 do
  if (had[i] or '') ~= ARGV[2 + i] then return 0 end
end
redis.call('HDEL', added, unpack(fields))
local less_pv, less_uv, less_dwell = tonumber(ARGV[7]), tonumber(ARGV[8]), tonumber(ARGV[9])

local left = tonumber(redis.call('GET', KEYS[2]) or 0) - less_pv
if left > 0 then
  local pv, cnt = redis.call('INCRBY', KEYS[2], 0 - less_pv), redis.call('INCRBY', KEYS[5], 0 - less_pv)
  local sum = redis.call('INCRBY', KEYS[4], 0 - math.min(less_dwell, tonumber(redis.call('GET', KEYS[4]) or 0)))
  local uv_less = (tonumber(item[2]) or 0) + less_uv
  if less_uv ~= 0 then
    redis.call('HSET', KEYS[7], 'uv_less', uv_less)
    if not item[1] and redis.call('TTL', KEYS[7]) == -1 then redis.call('PEXPIRE', KEYS[7], redis.call('PTTL', KEYS[2])) end
  end
  local uv = math.max(0, redis.call('PFCOUNT', KEYS[3]) - uv_less)
  local now = tonumber(redis.call('TIME')[1])
  local first = math.min(tonumber(item[3] or ARGV[2]) or now, now)
  local formula = ARGV[13]
--@include formula
--@include engagement_key
  if z then redis.call('ZADD', KEYS[12], 'XX', string.format('%.17g', z), id) end
else
  redis.call('DEL', KEYS[2], KEYS[3], KEYS[4], KEYS[5])
  redis.call('HDEL', KEYS[7], 'uv_less')
  redis.call('ZREM', KEYS[12], id)
end
local viewed = redis.call('HMGET', KEYS[8], 'total', 'score', 'pv')
local left_views = viewed[3] and tonumber(viewed[3]) - tonumber(ARGV[12])
if left_views then
  local total, sum = tonumber(viewed[1]) - tonumber(ARGV[10]), tonumber(viewed[2]) - tonumber(ARGV[11])
  if left_views > 0 and total > 0 and sum > 0 then
    redis.call('HSET', KEYS[8], 'total', string.format('%.17g', total), 'score', string.format('%.17g', sum), 'pv', left_views)
    redis.call('ZADD', KEYS[9], 'XX', sum, id)
    redis.call('ZADD', KEYS[11], 'XX', total, id)
  else
    left_views = nil
    redis.call('DEL', KEYS[8])
    redis.call('ZREM', KEYS[9], id)
    redis.call('ZREM', KEYS[11], id)
  end
end
if not (left > 0 or left_views) then redis.call('ZREM', KEYS[10], id) end
return 1
