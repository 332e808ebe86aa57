-- A shard to which nothing is added any more gives back the room that Redis kept for more: up to as much as it holds.
--
-- KEYS 1 bf:global:{day}:{shard}
-- Returns 1, or 0 when there is no such shard.
local all = call('GET', KEYS[1])
if not all then return 0 end
call('SET', KEYS[1], all, 'KEEPTTL')
return 1
