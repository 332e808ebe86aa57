-- Adds impressions to a day's RedisBloom filter. Never creates a filter without its parameters and an expiry.
--
-- KEYS 1 bf:global:{day}
-- ARGV 1 unix second at which the day expires  2 capacity  3 false-positive rate  4… impressions
-- Returns 1, or 0 if the day has expired.
if tonumber(call('TIME')[1]) >= tonumber(ARGV[1]) then return 0 end
call('BF.INSERT', KEYS[1], 'CAPACITY', ARGV[2], 'ERROR', ARGV[3], 'ITEMS', unpack(ARGV, 4))
call('EXPIREAT', KEYS[1], ARGV[1])
return 1
