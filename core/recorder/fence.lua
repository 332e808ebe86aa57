-- Lets nobody acknowledge in a stream who has a lower token than this.
--
-- KEYS 1 recorder:fence
-- ARGV 1 the token
-- Returns the token that stands there afterwards: a higher one stays.
local had = tonumber(call('GET', KEYS[1]) or 0)
if had >= tonumber(ARGV[1]) then return had end
call('SET', KEYS[1], ARGV[1])
return tonumber(ARGV[1])
