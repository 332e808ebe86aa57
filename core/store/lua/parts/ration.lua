-- Takes a token of a visitor's bucket, before anything is written. Takes what is about it off KEYS and ARGV: the last key, and the last two arguments,
-- the ms of (burst - 1) tokens and of one; '0' for the latter: there is no limit, and no key.
-- Error: RATE_LIMITED n: there will be one in n seconds.
--
-- The generic cell rate algorithm (ITU-T I.371, annex A; as in redis-cell): all that a bucket is is the moment at which it will be full, and that
-- is when its key goes. So a visitor who keeps within the rate mostly has none, and this is one command with arguments as they came.
local last = #ARGV
local interval, tolerance = ARGV[last], ARGV[last - 1]
ARGV[last], ARGV[last - 1] = nil, nil
if interval ~= '0' then
  last = #KEYS
  local bucket = KEYS[last]
  KEYS[last] = nil
  if not redis.call('SET', bucket, '', 'NX', 'PX', interval) then
    local left = redis.call('PTTL', bucket)
    local wait = left - tolerance
    if wait > 0 then return redis.error_reply(string.format('RATE_LIMITED %d seconds until there is a token', math.ceil(wait / 1000))) end
    redis.call('PEXPIRE', bucket, left + interval)
  end
end
