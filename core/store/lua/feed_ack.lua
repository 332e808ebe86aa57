-- The seen-filter has these impressions now.
--
-- KEYS 1 feed:pending:{reader}
-- ARGV 1… items
local clock = redis.call('TIME')
local now = string.format('%.0f', tonumber(clock[1]) * 1000 + math.floor(tonumber(clock[2]) / 1000))
local scored = {}
for _, id in ipairs(ARGV) do
  scored[#scored + 1] = now
  scored[#scored + 1] = id
end
redis.call('ZADD', KEYS[1], 'XX', unpack(scored))
return 1
