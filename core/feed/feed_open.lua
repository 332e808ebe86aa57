-- All of a reader's feed that a refresh must know, in one look. Writes nothing.
--
-- KEYS 1 feed:state:{reader}  2 feed:pending:{reader}  3 user:interactions:{reader}  4 feed:cache:{reader}  5 feed:page:{reader}:{request}, if any
-- ARGV 1 1: with the buffer  2 most interactions
-- Returns {'replay', page} when the page was handed out before, else {'open', generation or '0', moves or '0', Redis' clock in ms,
--   {page, score, …} of what is pending (see feed_head.lua), {letter:item, …} of the newest interactions, {item, …} of the buffer or {}}.
if KEYS[5] then
  local page = redis.call('GET', KEYS[5])
  if page then return {'replay', page} end
end
local clock = redis.call('TIME')
local was = redis.call('HMGET', KEYS[1], 'generation', 'moves')
return {
  'open',
  was[1] or '0',
  was[2] or '0',
  string.format('%.0f', tonumber(clock[1]) * 1000 + math.floor(tonumber(clock[2]) / 1000)),
  redis.call('ZRANGE', KEYS[2], 0, -1, 'WITHSCORES'),
  redis.call('ZREVRANGE', KEYS[3], 0, tonumber(ARGV[2]) - 1),
  ARGV[1] == '1' and redis.call('LRANGE', KEYS[4], 0, -1) or {},
}
