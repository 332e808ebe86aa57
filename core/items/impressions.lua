-- Adds feed impressions to items. Ignores items that no longer exist.
--
-- KEYS 1… hot:article:{id} of each item, by slot_or_zero()
-- ARGV one count for each key
for i = 1, #KEYS do
  if call('HINCRBY', KEYS[i], 'shown', ARGV[i]) == ARGV[i] + 0 and call('HLEN', KEYS[i]) == 1 then call('DEL', KEYS[i]) end
end
return #KEYS
