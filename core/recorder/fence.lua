-- Raises the fence of a stream, so that holders of a lower token can no longer acknowledge.
--
-- KEYS 1 recorder:fence
-- ARGV 1 the token
-- Returns the token of the fence afterwards. A higher one stays.
local current = tonumber(call('GET', KEYS[1]) or 0)
if current >= tonumber(ARGV[1]) then return current end
call('SET', KEYS[1], ARGV[1])
return tonumber(ARGV[1])
