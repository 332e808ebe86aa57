-- What pulled authors published since the last page joins a timeline's head, for keys with hash tags, where the caller reads their outboxes.
--
-- KEYS 1 wf:{channel}:{reader}  2 follow:authors:{reader}
-- ARGV 1 TTL s of a new timeline  2 most items of it  3 number of authors, then of each: author, their mark as the caller read it, and as it is now;
--      then item and number of its author (from 1), oldest first
-- Returns 1 when the timeline was there.
--@include timeline
local existed = redis.call('EXISTS', KEYS[1])
local last = 3 + 3 * tonumber(ARGV[3])
local ours = {}
for i = 4, last, 3 do
  -- Another page has copied them meanwhile, or the author is followed no more.
  local as_read = tonumber(redis.call('ZSCORE', KEYS[2], ARGV[i]) or -1) == tonumber(ARGV[i + 1])
  if as_read then redis.call('ZADD', KEYS[2], ARGV[i + 2], ARGV[i]) end
  ours[#ours + 1] = as_read
end
local ids = {}
for i = last + 1, #ARGV, 2 do
  if ours[tonumber(ARGV[i + 1])] then ids[#ids + 1] = ARGV[i] end
end
local _, is_new = push(KEYS[1], ids, tonumber(ARGV[2]), clock_ms())
if is_new then redis.call('EXPIRE', KEYS[1], ARGV[1]) end
return existed
