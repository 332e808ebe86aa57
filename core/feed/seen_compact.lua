-- Compacts a shard that no longer grows. APPEND over-allocates by up to the string's length; SET stores it exactly.
--
-- KEYS 1 bf:global:{day}:{shard}
-- Returns 1, or 0 if there is no such shard.
local all = call('GET', KEYS[1])
if not all then return 0 end
call('SET', KEYS[1], all, 'KEEPTTL')
return 1
