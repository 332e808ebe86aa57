-- Sets aside what a visitor added to an item, until it is off the item's counters (core/hot/contributions.h).
--
-- KEYS 1 hot:added:{visitor}
-- ARGV 1 id  2…5 fields t u v s of the item as the caller read them, '' for none  6 what is set aside, for field p
-- Returns 1, or 0 when they are not as the caller read them (nothing is written).
local id = ARGV[1]
local fields = {'t:' .. id, 'u:' .. id, 'v:' .. id, 's:' .. id}
local had = call('HMGET', KEYS[1], unpack(fields))
for i = 1, 4 do
  if (had[i] or '') ~= ARGV[1 + i] then return 0 end
end
call('HDEL', KEYS[1], unpack(fields))
return call('HSET', KEYS[1], 'p:' .. id, ARGV[6])
