-- Items join the heads of timelines.
--
-- KEYS 1… wf:{channel}:{reader} of each, by slot_or_zero()
-- ARGV 1 TTL s of a new timeline  2 most items of it  3 number of the fan-out, '' for none: a timeline that it reached is left as it is
--      4… items, the last becomes the newest
-- Returns {how many are new, summed over the timelines: the others keep their place; how many timelines could not be written; the error of
-- the last of these, or ''}.
--@include timeline
local ids, ttl, most, job, now = {unpack(ARGV, 4)}, ARGV[1], tonumber(ARGV[2]), ARGV[3], clock_us()
local all, failed, why = 0, 0, ''
local function join(key)
  if job ~= '' and mark(key, '::::') == job + 0 then return 0 end
  local pushed, is_new = push(key, ids, most, now)
  if job ~= '' then call('ZADD', key, '-' .. job, '::::') end
  -- A timeline lives on by being read, not by being pushed to.
  if is_new then call('EXPIRE', key, ttl) end
  return pushed
end
for _, key in ipairs(KEYS) do
  local written, pushed = pcall(join, key)
  if written then
    all = all + pushed
  else
    failed, why = failed + 1, type(pushed) == 'table' and pushed.err or tostring(pushed)
  end
end
return {all, failed, why}
