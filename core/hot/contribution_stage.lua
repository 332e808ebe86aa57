-- Stages a visitor's contribution to an item until it is subtracted from the item's counters
-- (core/hot/contributions.h).
--
-- KEYS 1 hot:added:{visitor}
-- ARGV 1 id  2…5 fields t u v s of the item as the caller read them, '' for none
--      6 the staged contribution, for field p
-- Returns 1, or 0 if the fields have changed since the caller read them (nothing is written).
local id = ARGV[1]
local fields = {'t:' .. id, 'u:' .. id, 'v:' .. id, 's:' .. id}
local current = call('HMGET', KEYS[1], unpack(fields))
for i = 1, 4 do
  if (current[i] or '') ~= ARGV[1 + i] then return 0 end
end
call('HDEL', KEYS[1], unpack(fields))
return call('HSET', KEYS[1], 'p:' .. id, ARGV[6])
