-- Items join the heads of timelines.
--
-- KEYS 1… wf:{channel}:{reader} of each, by call_of()
-- ARGV 1 TTL s of a new timeline  2 most items of it  3… items, the last becomes the newest
-- Returns {how many are new, summed over the timelines: the others keep their place; how many timelines could not be written; the error of
-- the last of these, or ''}.
--@include timeline
local ids, ttl, most, now = {unpack(ARGV, 3)}, ARGV[1], tonumber(ARGV[2]), clock_us()
local all, failed, why = 0, 0, ''
for _, key in ipairs(KEYS) do
  local written, pushed, is_new = pcall(push, key, ids, most, now)
  if written then
    all = all + pushed
    -- A timeline lives on by being read, not by being pushed to.
    if is_new then redis.call('EXPIRE', key, ttl) end
  else
    failed, why = failed + 1, type(pushed) == 'table' and pushed.err or tostring(pushed)
  end
end
return {all, failed, why}
