-- Acknowledges entries of one of the recorder's streams and cuts off all that nobody needs any more: what lies below the lowest that is pending, else
-- below what was delivered last.
--
-- KEYS 1 recorder:stream  2 recorder:fence
-- ARGV 1 the group  2 the token of who asks  3 the id behind the last that was delivered  4… ids of entries
-- Returns 1; the error NOGROUP when stream, group or fence are gone, FENCED when the fence has another token; nothing was done then.
local stream, fence, group = KEYS[1], call('GET', KEYS[2]), ARGV[1]
if not fence then return redis.error_reply('NOGROUP the fence is gone') end
if fence ~= ARGV[2] then return redis.error_reply('FENCED another took the lease') end
for from = 4, #ARGV, 1000 do  -- unpack() has its limits
  call('XACK', stream, group, unpack(ARGV, from, min(from + 999, #ARGV)))
end
call('XTRIM', stream, 'MINID', call('XPENDING', stream, group)[2] or ARGV[3])
return 1
