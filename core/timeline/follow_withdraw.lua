-- Removes items of an author from the timeline of a reader who does not follow the author. A reader who has followed again since keeps them.
--
-- KEYS 1 wf:{channel}:{reader}  2 follow:authors:{reader}
-- ARGV 1 author  2… items
-- Returns the number of items removed.
if call('ZSCORE', KEYS[2], ARGV[1]) then return 0 end
return call('ZREM', KEYS[1], unpack(ARGV, 2))
