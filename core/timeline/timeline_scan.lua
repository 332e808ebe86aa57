-- What lies next to a cursor in a timeline, hidden or not: for keys with hash tags, where a page is made in steps.
--
-- KEYS 1 wf:{channel}:{reader}
-- ARGV 1 first, down or up  2 cursor  3 how many  4 TTL s of the timeline
-- Returns {1: the timeline was there, highest score cut off, newer than the cursor, up: those and the cursor's own, the time in unix s, id, score…},
-- nearest first.
--@include timeline
--@include timeline_look
local existed = redis.call('EXPIRE', key, ARGV[4])
local cut, newer, newer_or_at = surroundings()
return {existed, cut, newer, newer_or_at, redis.call('TIME')[1], unpack(look(ARGV[3]))}
