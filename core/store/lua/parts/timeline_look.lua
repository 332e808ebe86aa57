-- Looking at a timeline from a cursor on, nearest first. Expects KEYS 1 wf:{channel}:{reader}, ARGV 1 first, down or up  2 cursor, and timeline.lua.
local key, direction, cursor = KEYS[1], ARGV[1], ARGV[2]
local from = direction == 'first' and '+inf' or '(' .. cursor
local function look(count)
  if direction == 'down' then return redis.call('ZRANGEBYSCORE', key, from, '+inf', 'WITHSCORES', 'LIMIT', 0, count) end
  return redis.call('ZREVRANGEBYSCORE', key, from, '(0', 'WITHSCORES', 'LIMIT', 0, count)
end
-- The highest score that was cut off, and how many are newer than the cursor, without and with the one at it.
local function surroundings()
  local cut = whole(mark(key, '::'))
  if direction == 'first' then return cut, 0, 0 end
  return cut, redis.call('ZCOUNT', key, from, '+inf'), redis.call('ZCOUNT', key, math.max(tonumber(cursor), 1), '+inf')
end
