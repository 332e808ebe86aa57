-- Adds impressions to a day's RedisBloom filter, which is never made without its parameters and its end.
--
-- KEYS 1 bf:global:{day}
-- ARGV 1 unix second at which the day is forgotten  2 capacity  3 false-positive rate  4… impressions
-- Returns 1, or 0 when the day is forgotten already.
if tonumber(call('TIME')[1]) >= tonumber(ARGV[1]) then return 0 end
call('BF.INSERT', KEYS[1], 'CAPACITY', ARGV[2], 'ERROR', ARGV[3], 'ITEMS', unpack(ARGV, 4))
call('EXPIREAT', KEYS[1], ARGV[1])
return 1
