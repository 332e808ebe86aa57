-- Stages a visitor's contribution to an item until it is subtracted from the item's counters
-- (core/hot/contributions.h).
--
-- KEYS 1 hot:added:{visitor}
-- ARGV 1 id  2 field a:{id} as the caller read it  3 the staged contribution, for field p:{id}
-- Returns 1, or 0 if the field has changed since the caller read it (nothing is written).
local field = 'a:' .. ARGV[1]
if call('HGET', KEYS[1], field) ~= ARGV[2] then return 0 end
call('HDEL', KEYS[1], field)
return call('HSET', KEYS[1], 'p:' .. ARGV[1], ARGV[3])
