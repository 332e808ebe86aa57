-- Forgets a reader's history of one kind: all of it, or what was viewed up to a time. When all was asked to be forgotten,
-- the field t (topics) or r (replies) says up to when: a view from before that may still wait in a spool.
--
-- KEYS 1 user:views:topic:{reader} or user:views:reply:{reader}  2 user:views:at:{reader}
-- ARGV 1 t (topic) or r (reply)  2 forget views up to this time, '' for now  3 TTL s
-- Returns 1.
local call = redis.call
local list, times, letter = KEYS[1], KEYS[2], ARGV[1]
local clock = tonumber(call('TIME')[1])
local up_to = tonumber(ARGV[2])
local function forget(item)
  call('LREM', list, 0, item)
  call('HDEL', times, letter .. ':' .. item)
end
local function was_before(item) return (tonumber(call('HGET', times, letter .. ':' .. item)) or 0) <= up_to end
if up_to then
  up_to = math.min(up_to, clock)
  for _, item in ipairs(call('LRANGE', list, 0, -1)) do
    if was_before(item) then forget(item) end
  end
else
  up_to = clock
  call('DEL', list)
  for _, field in ipairs(call('HKEYS', times)) do
    if field:sub(1, 2) == letter .. ':' then call('HDEL', times, field) end
  end
end
call('HSET', times, letter, string.format('%.0f', math.max(up_to, tonumber(call('HGET', times, letter)) or 0)))
call('EXPIRE', times, ARGV[3])
return 1
