-- Writes an article's counters as the caller computed them from those that it read.
--
-- KEYS 1 hot:article:{id}  [2 hot:uv:hll:{id}, which goes]
-- ARGV 1 the version that the caller read  2 how many fields go  3… those, then fields and values
-- Returns 1, or 0 when the article has another version (nothing is written).
--@include version
local article = KEYS[1]
if call('HGET', article, 'v') ~= ARGV[1] then return 0 end
local time, going = call('TIME'), 2 + ARGV[2]
call('HSET', article, 'v', version_after(ARGV[1], time), unpack(ARGV, going + 1))
if going > 2 then call('HDEL', article, unpack(ARGV, 3, going)) end
if KEYS[2] then call('DEL', KEYS[2]) end
return 1
