-- Adds an item to a reader's interests: a view of it becomes their newest interaction.
--
-- KEYS 1 user:interactions:{reader}  2 user:earlier:{reader}
-- ARGV 1 v:{item}  2 most interactions kept  3 most of user:earlier  4 TTL s
local call = redis.call
local done, earlier, most, most_earlier = KEYS[1], KEYS[2], tonumber(ARGV[2]), tonumber(ARGV[3])
call('ZADD', done, call('TIME')[1], ARGV[1])
--@include reader_trim
call('EXPIRE', done, ARGV[4])
call('EXPIRE', earlier, ARGV[4])
return 1
