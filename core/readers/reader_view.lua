-- A reader looked at an item: it becomes the newest of their history, which stays distinct and capped, with its time beside it.
--
-- KEYS 1 user:views:topic:{reader} or user:views:reply:{reader}  2 user:views:at:{reader}  3 user:events:{reader}  [4 item:{item}: it must have been put]
--    
-- ARGV 1 item  2 t (topic) or r (reply)  3 most items  4 TTL s  5 time of the view or '' (now): then it takes its place by time  6 event id or ''
--    
-- Returns 1; 0 when the history has nothing new to learn from it, or the event was applied before.
-- Error, before the first write: UNKNOWN_ITEM.
local call = redis.call
local list, times, item, letter, most, ttl = KEYS[1], KEYS[2], ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local clock = tonumber(call('TIME')[1])
local late = tonumber(ARGV[5])
local at = math.min(late or clock, clock)
local field = letter .. ':' .. item
local events, event, item_key, stream, stream_max = KEYS[3], ARGV[6], KEYS[4], nil, nil
--@include reader_event
if late then  -- not before what is known, before the history was cleared (see reader_clear.lua), or too old
  local known = call('HMGET', times, field, letter)
  if at <= math.max(tonumber(known[1]) or -1, tonumber(known[2]) or -1, clock - ttl) then return 0 end
end

call('LREM', list, 0, item)
local length
for _, other in ipairs(late and call('LRANGE', list, 0, most - 1) or {}) do
  if (tonumber(call('HGET', times, letter .. ':' .. other)) or 0) <= at then
    length = call('LINSERT', list, 'BEFORE', other, item)
    break
  end
end
length = length or call(late and 'RPUSH' or 'LPUSH', list, item)
if length == 1 then  -- the list had run out; the hash, which is shared, may have lived on
  for _, old in ipairs(call('HKEYS', times)) do
    if old:sub(1, 2) == letter .. ':' then call('HDEL', times, old) end
  end
end
call('HSET', times, field, string.format('%.0f', at))
if length > most then
  for _, gone in ipairs(call('LRANGE', list, most, -1)) do call('HDEL', times, letter .. ':' .. gone) end
  call('LTRIM', list, 0, most - 1)
end
call('EXPIRE', list, ttl)
call('EXPIRE', times, ttl)
return 1
