-- Forgets a reader's history of one kind: all of it, or what was viewed up to a time, or some items of that.
--
-- KEYS 1 user:views:topic:{reader} or user:views:reply:{reader}  2 user:views:at:{reader}
-- ARGV 1 t (topic) or r (reply)  2 forget views up to this time, '' for all  3… only these items, if any
-- Returns 1.
local list, times, letter, until_ = KEYS[1], KEYS[2], ARGV[1], tonumber(ARGV[2])
if not until_ then
  redis.call('DEL', list)
  for _, field in ipairs(redis.call('HKEYS', times)) do
    if field:sub(1, 1) == letter then redis.call('HDEL', times, field) end
  end
  return 1
end
for _, item in ipairs(ARGV[3] and {unpack(ARGV, 3)} or redis.call('LRANGE', list, 0, -1)) do
  local field = letter .. ':' .. item
  if (tonumber(redis.call('HGET', times, field)) or 0) <= until_ then
    redis.call('LREM', list, 0, item)
    redis.call('HDEL', times, field)
  end
end
return 1
