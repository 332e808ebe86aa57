-- Renews the recorder's lease for so many ms from now on, or not yet, as long as two thirds of that are left: what is asked three times a second is
-- written once. Or gives it back.
--
-- KEYS 1 recorder:lease
-- ARGV 1 the token  2 for how many ms; 0: it is given back
-- Returns 1; the error FENCED when another took it since, NOGROUP when Redis has lost it; nothing was done then.
--@include lease
local had, ms = call('HMGET', KEYS[1], 'token', 'till'), tonumber(ARGV[2])
if not had[1] then return redis.error_reply('NOGROUP the lease is gone') end
if had[1] ~= ARGV[1] then return redis.error_reply('FENCED another took the lease') end
local left = tonumber(had[2] or 0) - now_ms()
if left <= ms * 2 / 3 or left > ms then extend(KEYS[1], ms) end
return 1
