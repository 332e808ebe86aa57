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
local function push_items(key)
  if job ~= '' and mark(key, FANOUT) == job + 0 then return 0 end
  local pushed, is_new = push(key, ids, max_items, now)
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
