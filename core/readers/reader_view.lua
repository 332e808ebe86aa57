-- Adds a view to a reader's history, which stays distinct and capped, and stores its time in a hash. A view without a time becomes the newest, one with a
-- time is inserted by it.
--
-- KEYS 1 user:views:topic:{reader} or user:views:reply:{reader}  2 user:views:at:{reader}  3 user:events:{reader}  4 feed:state:{reader}
-- ARGV 1 item  2 t (topic) or r (reply)  3 maximum items  4 TTL s  5 time of the view or '' (now)  6 event id or ''
--      7 '1' if the view is merged from another reader's history: it counts however old it is, and goes after views of the same second; else '0'
-- Returns 1; 0 if the view changes nothing, or its event was applied before.
local list, times, events, item, event = KEYS[1], KEYS[2], KEYS[3], ARGV[1], ARGV[6]
local letter, limit, ttl, given, merged = ARGV[2] .. ':', tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[7])
local clock, field = tonumber(call('TIME')[1]), letter .. item
local at = min(given or clock, clock)
if event ~= '' then  -- as RedisReaderStore::append_applied_event()
  if (tonumber(call('ZSCORE', events, event)) or 0) > clock - 86400 then return 0 end
  call('ZREMRANGEBYSCORE', events, '-inf', clock - 86400)
  call('ZADD', events, clock, event)
  call('ZREMRANGEBYRANK', events, 0, -10001)
  call('EXPIRE', events, 86400)
end
if given then  -- ignore views older than the known one, than the clear mark (reader_clear_views.lua), or than the TTL
  local known = call('HMGET', times, field, ARGV[2])
  local oldest = merged == 1 and -1 or max(tonumber(known[2]) or -1, clock - ttl)
  local latest = known[1] and math.abs(tonumber(known[1])) or -1  -- negative: removed then (reader_remove_view.lua)
  if at <= max(latest, oldest) then return 0 end
end

call('LREM', list, 0, item)
local length
for _, other in ipairs(given and call('LRANGE', list, 0, limit - 1) or {}) do
  if (tonumber(call('HGET', times, letter .. other)) or 0) <= at - merged then
    length = call('LINSERT', list, 'BEFORE', other, item)
    break
  end
end
length = length or call(given and 'RPUSH' or 'LPUSH', list, item)
if length == 1 then  -- the list had expired; the shared hash may have outlived it
  local fields = call('HGETALL', times)
  for i = 1, #fields, 2 do
    if fields[i]:sub(1, 2) == letter and fields[i + 1]:byte() ~= 45 then call('HDEL', times, fields[i]) end
  end
end
call('HSET', times, field, format('%.0f', at))
if length > limit then
  for _, removed in ipairs(call('LRANGE', list, limit, -1)) do call('HDEL', times, letter .. removed) end
  call('LTRIM', list, 0, limit - 1)
end
if call('EXISTS', KEYS[4]) == 1 then call('HINCRBY', KEYS[4], 'noted', 1) end  -- as feed_external.lua
for i = 1, 2 do
  if merged == 0 or call('TTL', KEYS[i]) < ttl then call('EXPIRE', KEYS[i], ttl) end
end
return 1
