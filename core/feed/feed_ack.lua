-- The seen-filter has the impressions of what one script handed out.
--
-- KEYS 1 feed:pending:{reader}
-- ARGV 1 the member as it was handed out  2 the same with what was shown of it, '' for nothing: the rest is forgotten and may come again
-- Returns 1, or 0 when it is not pending any more.
if not redis.call('ZSCORE', KEYS[1], ARGV[1]) then return 0 end
local clock = redis.call('TIME')
if ARGV[2] ~= '' then
  redis.call('ZADD', KEYS[1], string.format('%.0f', tonumber(clock[1]) * 1000 + math.floor(tonumber(clock[2]) / 1000)), ARGV[2])
end
if ARGV[1] ~= ARGV[2] then redis.call('ZREM', KEYS[1], ARGV[1]) end  -- last: with its last member a key loses its TTL
return 1
