-- Items join the head of a timeline.
--
-- KEYS 1 wf:{channel}:{reader}
-- ARGV 1 TTL s of a new timeline  2 most items of it  3… items, the last becomes the newest
-- Returns how many are new to the timeline; the others keep their place.
--@include timeline
local ids = {}
for i = 3, #ARGV do ids[i - 2] = ARGV[i] end
local pushed, is_new = push(KEYS[1], ids, tonumber(ARGV[2]), clock_ms())
-- A timeline lives on by being read, not by being pushed to.
if is_new then redis.call('EXPIRE', KEYS[1], ARGV[1]) end
return pushed
