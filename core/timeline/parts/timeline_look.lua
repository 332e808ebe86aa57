-- Looking at a timeline from a cursor on, nearest first. Expects KEYS 1 wf:{channel}:{reader}, ARGV 1 first, down or up  2 cursor, and timeline.lua.
local key, direction, cursor = KEYS[1], ARGV[1], ARGV[2]
local from = direction == 'first' and '+inf' or '(' .. cursor
local function look(count)
  if direction == 'down' then return redis.call('ZRANGEBYSCORE', key, from, '+inf', 'WITHSCORES', 'LIMIT', 0, count) end
  return redis.call('ZREVRANGEBYSCORE', key, from, '(0', 'WITHSCORES', 'LIMIT', 0, count)
end
-- The highest score that was cut off, and how many are newer than the cursor; 'up' also: those and the one at it.
local function surroundings()
  local cut, newer, newer_or_at = whole(mark(key, '::')), 0, 0
  if direction ~= 'first' then newer = redis.call('ZCOUNT', key, from, '+inf') end
  if direction == 'up' then newer_or_at = redis.call('ZCOUNT', key, math.max(tonumber(cursor), 1), '+inf') end
  return cut, newer, newer_or_at
end
