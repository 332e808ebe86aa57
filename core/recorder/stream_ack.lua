-- Acknowledges entries of the recorder's stream and cuts off all that nobody needs any more: what lies below the lowest that is pending, else below
-- what was delivered last. Renews the lease of who asks.
--
-- KEYS 1 recorder:stream  2 recorder:lease
-- ARGV 1 the group  2 the token of who asks  3 for how many ms the lease is renewed  4 the id behind the last that was delivered  5… ids of entries
-- Returns 1; the error NOGROUP when stream, group or lease are gone, FENCED when another took the lease since; nothing was done then.
--@include lease
local lost, stream, group = renew(KEYS[2], ARGV[2], ARGV[3]), KEYS[1], ARGV[1]
if lost then return lost end
for from = 5, #ARGV, 1000 do  -- unpack() has its limits
  call('XACK', stream, group, unpack(ARGV, from, min(from + 999, #ARGV)))
end
call('XTRIM', stream, 'MINID', call('XPENDING', stream, group)[2] or ARGV[4])
return 1
