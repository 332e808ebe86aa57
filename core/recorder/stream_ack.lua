-- Acknowledges entries of the recorder's stream and cuts off all that nobody needs any more: what lies below the lowest entry that is pending or
-- not yet delivered. Renews the lease of who asks. With no entries it only looks, as anybody may who has no lease.
--
-- KEYS 1 recorder:stream  2 recorder:lease
-- ARGV 1 the group  2 the token of who asks, or 0  3 for how many ms the lease is renewed  4… ids of entries
-- Returns {entries left, age of the oldest in ms (0 without), entries pending}; the error NOGROUP when stream, group or lease are gone,
-- FENCED when another took the lease since; nothing was done then.
--@include lease
local lost = ARGV[2] ~= '0' and renew(KEYS[2], ARGV[2], ARGV[3])
if lost then return lost end
for from = 4, #ARGV, 1000 do  -- unpack() has its limits
  redis.call('XACK', KEYS[1], ARGV[1], unpack(ARGV, from, math.min(from + 999, #ARGV)))
end
local groups = redis.pcall('XINFO', 'GROUPS', KEYS[1])
local group
for _, fields in ipairs(groups.err and {} or groups) do
  local one = {}
  for i = 1, #fields, 2 do one[fields[i]] = fields[i + 1] end
  if one.name == ARGV[1] then group = one end
end
if not group then return redis.error_reply('NOGROUP no such group') end
local keep
if group.pending > 0 then
  keep = redis.call('XPENDING', KEYS[1], ARGV[1])[2]
else
  local ms, sequence = string.match(group['last-delivered-id'], '(%d+)-(%d+)')
  keep = ms .. '-' .. string.format('%.0f', sequence + 1)
end
redis.call('XTRIM', KEYS[1], 'MINID', keep)
local oldest = redis.call('XRANGE', KEYS[1], '-', '+', 'COUNT', 1)[1]
local age = 0
if oldest then
  age = math.max(0, now_ms() - tonumber(string.match(oldest[1], '%d+')))
end
return {redis.call('XLEN', KEYS[1]), age, group.pending}
