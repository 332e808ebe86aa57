-- Second half of track.lua when keys carry hash tags: hot:rank lies in another slot than the counters.
--
-- KEYS 1 hot:rank  2 hot:published  3 hot:hidden
-- ARGV 1 id  2 z  3 date  4 half-life s  5 log2 of the floor  6 most members
-- Returns 1, or 0 for an item that has been hidden meanwhile.
local id, z, date, half = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local floor, max = tonumber(ARGV[5]), tonumber(ARGV[6])
local rank, published = KEYS[1], KEYS[2]
local dark_until = tonumber(redis.call('ZSCORE', KEYS[3], id) or nil)
if dark_until and dark_until == math.floor(dark_until) then return 0 end  -- not one that is only dated ahead
local clock = tonumber(redis.call('TIME')[1])
--@include rank_put
return 1
