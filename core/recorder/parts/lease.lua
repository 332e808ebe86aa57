-- The recorder's lease, a hash: who took it last (`holder`, in words; `process`), with which `token`, for which `database`, and `till` when
-- (unix ms). Tokens only grow.
local function now_ms()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end
-- For so many ms from now on; 0 gives it back. Returns nil, or the error to answer with: nothing was done.
local function renew(lease, token, ms)
  local last = redis.call('HGET', lease, 'token')
  if not last then return redis.error_reply('NOGROUP the lease is gone') end
  if last ~= token then return redis.error_reply('FENCED another took the lease') end
  redis.call('HSET', lease, 'till', string.format('%.0f', now_ms() + ms))
end
