-- Acknowledges entries of a stream and trims it: below the lowest pending entry, or below the last
-- delivered one if nothing is pending.
--
-- KEYS 1 recorder:stream  2 recorder:fence
-- ARGV 1 the group  2 the caller's token  3 the id after the last delivered entry
--      4… ids of entries
-- Returns 1; the error NOGROUP if the stream, group or fence is missing, FENCED if the fence has
--      another token; nothing was done then.
local stream, fence, group = KEYS[1], call('GET', KEYS[2]), ARGV[1]
if not fence then return redis.error_reply('NOGROUP the fence is missing') end
if fence ~= ARGV[2] then return redis.error_reply('FENCED another process holds the lease') end
for from = 4, #ARGV, 1000 do  -- unpack() is limited
  call('XACK', stream, group, unpack(ARGV, from, min(from + 999, #ARGV)))
end
call('XTRIM', stream, 'MINID', call('XPENDING', stream, group)[2] or ARGV[3])
return 1
