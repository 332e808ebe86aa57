-- The recorder's lease, a hash: who took it last (`holder`, in words; `process`), with which `token`, for which `database`, and `till` when
-- (unix ms). Tokens only grow.
--@include clock
local function extend(lease, ms) call('HSET', lease, 'till', format('%.0f', now_ms() + ms)) end
-- For so many ms from now on, or not yet, as long as two thirds of that are left: what is asked three times a second is written once. 0 gives
-- it back. Returns nil, or the error to answer with: nothing was done.
local function renew(lease, token, ms)
  local had = call('HMGET', lease, 'token', 'till')
  if not had[1] then return redis.error_reply('NOGROUP the lease is gone') end
  if had[1] ~= token then return redis.error_reply('FENCED another took the lease') end
  local left = tonumber(had[2] or 0) - now_ms()
  if left > ms * 2 / 3 and left <= tonumber(ms) then return end
  extend(lease, ms)
end
