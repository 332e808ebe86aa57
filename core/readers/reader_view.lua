-- A reader looked at an item: it becomes the newest of their history, which stays distinct and capped, with its time beside it. A view with a time
-- takes its place by it.
--
-- KEYS 1 user:views:topic:{reader} or user:views:reply:{reader}  2 user:views:at:{reader}  3 user:events:{reader}
-- ARGV 1 item  2 t (topic) or r (reply)  3 most items  4 TTL s  5 time of the view or '' (now)  6 event id or ''
--      7 1: it comes from another reader's history, so it counts however old it is, and stands behind what was viewed in its second; else 0
-- Returns 1; 0 when the history has nothing new to learn from it, or the event was applied before.
local list, times, events, item, event = KEYS[1], KEYS[2], KEYS[3], ARGV[1], ARGV[6]
local letter, most, ttl, late, joins = ARGV[2] .. ':', tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[7])
local clock, field = tonumber(call('TIME')[1]), letter .. item
local at = min(late or clock, clock)
if event ~= '' then  -- as RedisReaderStore::append_memory()
  if (tonumber(call('ZSCORE', events, event)) or 0) > clock - 86400 then return 0 end
  call('ZREMRANGEBYSCORE', events, '-inf', clock - 86400)
  call('ZADD', events, clock, event)
  call('ZREMRANGEBYRANK', events, 0, -10001)
  call('EXPIRE', events, 86400)
end
if late then  -- not before what is known, before the history was cleared (see reader_forget.lua), or too old
  local known = call('HMGET', times, field, ARGV[2])
  local oldest = joins == 1 and -1 or max(tonumber(known[2]) or -1, clock - ttl)
  if at <= max(tonumber(known[1]) or -1, oldest) then return 0 end
end

call('LREM', list, 0, item)
local length
for _, other in ipairs(late and call('LRANGE', list, 0, most - 1) or {}) do
  if (tonumber(call('HGET', times, letter .. other)) or 0) <= at - joins then
    length = call('LINSERT', list, 'BEFORE', other, item)
    break
  end
end
length = length or call(late and 'RPUSH' or 'LPUSH', list, item)
if length == 1 then  -- the list had run out; the hash, which is shared, may have lived on
  for _, old in ipairs(call('HKEYS', times)) do
    if old:sub(1, 2) == letter then call('HDEL', times, old) end
  end
end
call('HSET', times, field, format('%.0f', at))
if length > most then
  for _, gone in ipairs(call('LRANGE', list, most, -1)) do call('HDEL', times, letter .. gone) end
  call('LTRIM', list, 0, most - 1)
end
for i = 1, 2 do
  if joins == 0 or call('TTL', KEYS[i]) < ttl then call('EXPIRE', KEYS[i], ttl) end
end
return 1
