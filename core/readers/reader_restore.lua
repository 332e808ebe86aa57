-- Gives a reader back what the database has of their interactions or dismissals. What Redis has of a later time stays.
--
-- KEYS 1 user:interactions:{reader}  2 user:earlier:{reader}; or 1 user:not_interested:{reader}  2 user:not_interested:why:{reader}
-- ARGV 1 most members  2 TTL s  3 most of user:earlier, '': these are dismissals  4… unix second, member and reason ('': none) of each
-- Returns how many were new.
local call, ttl, clock = redis.call, tonumber(ARGV[2]), tonumber(redis.call('TIME')[1])
local new, newest = 0, 0
for i = 4, #ARGV, 3 do
  newest = math.max(newest, tonumber(ARGV[i]))
  if call('ZADD', KEYS[1], 'GT', ARGV[i], ARGV[i + 1]) == 1 then
    new = new + 1
    if ARGV[i + 2] ~= '' then call('HSET', KEYS[2], ARGV[i + 1], ARGV[i + 2]) end
  end
end
local done, earlier, most, most_earlier = KEYS[1], KEYS[2], tonumber(ARGV[1]), tonumber(ARGV[3])
if most_earlier then
--@include reader_trim
else
  for _, member in ipairs(call('ZRANGE', done, 0, -most - 1)) do
    call('ZREM', done, member)
    call('HDEL', KEYS[2], member)
  end
end
local left = math.max(1, newest + ttl - clock)
for i = 1, #KEYS do
  if call('TTL', KEYS[i]) < left then call('EXPIRE', KEYS[i], left) end
end
return new
