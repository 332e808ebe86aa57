-- Adds items of authors to the head of a reader's timeline and updates the reader's marks of these authors, or does neither. The caller has read the marks
-- and the outboxes. If a mark has changed since, because another page did the same or the reader unfollowed, nothing is done.
--
-- KEYS 1 wf:{channel}:{reader}  2 follow:authors:{reader}
-- ARGV 1 maximum items of the timeline  2 its TTL s  3 number of authors; then for each author: id, mark as read by the caller ('': not followed), new mark;
--      then items, the last becomes the newest
-- Returns 1; 0 if a mark has changed.
--@include timeline
local author_args, marks = 3 * ARGV[3], {}
for i = 4, 3 + author_args, 3 do
  if (call('ZSCORE', KEYS[2], ARGV[i]) or '') ~= ARGV[i + 1] then return 0 end
  marks[#marks + 1], marks[#marks + 2] = ARGV[i + 2], ARGV[i]
end
local _, is_new = push(KEYS[1], {unpack(ARGV, 4 + author_args)}, tonumber(ARGV[1]), clock_us())
if is_new then call('EXPIRE', KEYS[1], ARGV[2]) end
call('ZADD', KEYS[2], unpack(marks))
return 1
