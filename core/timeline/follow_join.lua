-- Items of authors join the head of a reader's timeline, and the reader's marks say how far that is: both or neither. The caller has read
-- the marks and the outboxes; when a mark is another one by now, since another page did the same or the author is followed no more,
-- nothing is done.
--
-- KEYS 1 wf:{channel}:{reader}  2 follow:authors:{reader}
-- ARGV 1 most items of the timeline  2 its TTL s  3 number of authors, then of each: author, mark as the caller read it ('': not followed),
--      mark from now on; then items, the last becomes the newest
-- Returns 1; 0 when a mark is another one.
--@include timeline
local behind, marks = 3 * ARGV[3], {}
for i = 4, 3 + behind, 3 do
  if (call('ZSCORE', KEYS[2], ARGV[i]) or '') ~= ARGV[i + 1] then return 0 end
  marks[#marks + 1], marks[#marks + 2] = ARGV[i + 2], ARGV[i]
end
local _, is_new = push(KEYS[1], {unpack(ARGV, 4 + behind)}, tonumber(ARGV[1]), clock_us())
if is_new then call('EXPIRE', KEYS[1], ARGV[2]) end
call('ZADD', KEYS[2], unpack(marks))
return 1
