-- Removes the views of one item from a reader's history. Its time becomes that of the removal, negated, so that older views in a spool are
-- rejected later.
--
-- KEYS 1 user:views:topic:{reader} or user:views:reply:{reader}  2 user:views:at:{reader}
-- ARGV 1 item  2 t (topic) or r (reply)  3 time of the removal or '' (now)  4 TTL s  5 the hash keeps no time if it has this many fields
-- Returns the number of list entries removed; 0, too, if the item was viewed again since ARGV 3.
local clock, field = tonumber(call('TIME')[1]), ARGV[2] .. ':' .. ARGV[1]
local at = min(tonumber(ARGV[3]) or clock, clock)
if math.abs(tonumber(call('HGET', KEYS[2], field)) or 0) > at then return 0 end
local removed = call('LREM', KEYS[1], 0, ARGV[1])
if call('HLEN', KEYS[2]) < tonumber(ARGV[5]) then
  call('HSET', KEYS[2], field, format('-%.0f', at))
  call('EXPIRE', KEYS[2], ARGV[4])
else
  call('HDEL', KEYS[2], field)
end
return removed
