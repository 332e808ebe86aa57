-- Replaces the cached list and releases the lock.
--
-- KEYS 1 hot:list…  2 hot:list:meta…  3 hot:list:lock…  4 hot:epoch
-- ARGV 1 list  2 token of the lock (ms)  3 epoch it was built at  4 TTL s
-- Returns 1 if stored; 0 if an item was hidden since the list was built, or a newer list is stored.
local meta, built = KEYS[2], ARGV[2]
if call('GET', KEYS[3]) == built then call('DEL', KEYS[3]) end
local epoch = call('GET', KEYS[4]) or '0'
local stored = call('HMGET', meta, 'built_ms', 'epoch')
if epoch ~= ARGV[3] or stored[2] == epoch and stored[1] + 0 > built + 0 then return 0 end
call('SET', KEYS[1], ARGV[1], 'EX', ARGV[4])
call('HSET', meta, 'built_ms', built, 'epoch', epoch)
call('EXPIRE', meta, ARGV[4])
return 1
