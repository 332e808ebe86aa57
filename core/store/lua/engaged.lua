-- A reader engaged with an item: a view of it becomes their newest interaction.
--
-- KEYS 1 user:interactions:{reader}
-- ARGV 1 v:{item}  2 most interactions kept  3 TTL s
redis.call('ZADD', KEYS[1], redis.call('TIME')[1], ARGV[1])
redis.call('ZREMRANGEBYRANK', KEYS[1], 0, -tonumber(ARGV[2]) - 1)
redis.call('EXPIRE', KEYS[1], ARGV[3])
return 1
