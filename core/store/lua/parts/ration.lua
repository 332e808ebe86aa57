-- Takes a token of a visitor's bucket, before anything is written. Takes what is about it off KEYS and ARGV: the last key, and the last two arguments,
-- (burst - 1) tokens and one token in µs; '0' for the latter: there is no limit, and no key. Gives `ration_clock`, unix s, when it looked at the clock.
-- Error: RATE_LIMITED n: there will be one in n seconds.
--
-- The generic cell rate algorithm (ITU-T I.371, annex A; as in redis-cell): all that a bucket is is the moment at which it will be full. The key
-- goes at that moment, so of a visitor who keeps within the rate there is none, and this is one command.
local interval, tolerance, ration_clock = table.remove(ARGV), table.remove(ARGV), nil
if interval ~= '0' then
  local bucket, time = table.remove(KEYS), redis.call('TIME')
  ration_clock = time[1] + 0
  local now = ration_clock * 1000000 + time[2]
  interval = interval + 0
  if not redis.call('SET', bucket, now + interval, 'NX', 'PX', math.ceil(interval / 1000)) then
    local full = math.max(redis.call('GET', bucket) + 0, now)
    local wait = full - now - tolerance
    if wait > 0 then return redis.error_reply(string.format('RATE_LIMITED %d seconds until there is a token', math.ceil(wait / 1000000))) end
    redis.call('SET', bucket, full + interval, 'PX', math.ceil((full + interval - now) / 1000))
  end
end
