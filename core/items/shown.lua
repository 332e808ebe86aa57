-- Items were shown so many times. What is not known any more is left out.
--
-- KEYS 1… hot:article:{id} of each item, by slot_or_zero()
-- ARGV as many counts
for i = 1, #KEYS do
  if call('HINCRBY', KEYS[i], 'shown', ARGV[i]) == ARGV[i] + 0 and call('HLEN', KEYS[i]) == 1 then call('DEL', KEYS[i]) end
end
return #KEYS
