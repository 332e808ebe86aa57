-- Renews the recorder's lease, or releases it. Writes only after a third of the lifetime has
-- passed, although it is called three times as often.
--
-- KEYS 1 recorder:lease
-- ARGV 1 the token  2 lifetime from now in ms; 0 releases the lease
-- Returns 1; the error FENCED if another process acquired the lease, NOGROUP if Redis has lost
--      it; nothing was done then.
--@include lease
local lease, ms = call('HMGET', KEYS[1], 'token', 'till'), tonumber(ARGV[2])
if not lease[1] then return redis.error_reply('NOGROUP the lease is missing') end
if lease[1] ~= ARGV[1] then return redis.error_reply('FENCED another process holds the lease') end
local left = tonumber(lease[2] or 0) - now_ms()
if left <= ms * 2 / 3 or left > ms then extend(KEYS[1], ms) end
return 1
