-- Adds items to the heads of timelines.
--
-- KEYS 1… wf:{channel}:{reader} of each, by slot_or_zero()
-- ARGV 1 TTL s of a new timeline  2 maximum items of a timeline  3 number of the fan-out, '' for none; timelines that it has already reached are skipped
--      4… items, the last becomes the newest
-- Returns {number of items that were new, summed over the timelines; number of timelines that could not be written; the last of their errors,
-- or ''}. Items that are already in a timeline keep their position.
--@include timeline
local ids, ttl, max_items, job, now = {unpack(ARGV, 4)}, ARGV[1], tonumber(ARGV[2]), ARGV[3], clock_us()
local total, failed, failure = 0, 0, ''
local stride = max(1, min(8, floor(max_items / 10)))

-- push() of one item. Reads no score, since Redis formats a score with 17 digits, which takes longer than the command. No score is above HIGHEST; if
-- that is below `now`, LT keeps the position of an item that is already there, and only HIGHEST rises.
-- Trims when members, including the mark HIGHEST, are more than max_items + stride, so there are never more than max_items + stride - 1 items.
local function push_one(key, id)
  local score, added = score_text(now), 0
  local negative = '-' .. score
  if call('ZCOUNT', key, '-inf', negative) == 0 then
    added = call('ZADD', key, 'LT', score, id, negative, HIGHEST)
  else  -- the clock was set back, or several items had the last microseconds
    local scores = call('ZMSCORE', key, HIGHEST, id)
    if not scores[2] then
      score = score_text(max(now, 1 - (scores[1] or 0)))
      added = call('ZADD', key, '-' .. score, HIGHEST, score, id)
    end
  end
  if added > 0 and call('ZCARD', key) > max_items + stride then
    local trimmed = trim(key, max_items)
    if trimmed then call('ZADD', key, trimmed, TRIMMED) end
  end
  return min(added, 1), added == 2
end

local function push_items(key)
  if job ~= '' and mark(key, FANOUT) == job + 0 then return 0 end
  local pushed, is_new
  if #ids == 1 then
    pushed, is_new = push_one(key, ids[1])
  else
    pushed, is_new = push(key, ids, max_items, now)
  end
  if job ~= '' then call('ZADD', key, '-' .. job, FANOUT) end
  -- Only reading extends the life of a timeline, pushing does not.
  if is_new then call('EXPIRE', key, ttl) end
  return pushed
end
for _, key in ipairs(KEYS) do
  local written, pushed = pcall(push_items, key)
  if written then
    total = total + pushed
  else
    failed, failure = failed + 1, type(pushed) == 'table' and pushed.err or tostring(pushed)
  end
end
return {total, failed, failure}
