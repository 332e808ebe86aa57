-- Replaces the cached list and gives the lock back.
--
-- KEYS 1 hot:list…  2 hot:list:meta…  3 hot:list:lock…  4 hot:epoch
-- ARGV 1 json  2 token of the lock (ms)  3 epoch it was built at  4 TTL s
-- Returns 1 when stored; 0 when something was hidden meanwhile or a later list is there.
if redis.call('GET', KEYS[3]) == ARGV[2] then redis.call('DEL', KEYS[3]) end
if (redis.call('GET', KEYS[4]) or '0') ~= ARGV[3] then return 0 end
local meta = redis.call('HMGET', KEYS[2], 'built_ms', 'epoch')
if meta[2] == ARGV[3] and tonumber(meta[1]) > tonumber(ARGV[2]) then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'EX', ARGV[4])
redis.call('HSET', KEYS[2], 'built_ms', ARGV[2], 'epoch', ARGV[3])
redis.call('EXPIRE', KEYS[2], ARGV[4])
return 1
