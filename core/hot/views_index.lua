-- Follows a view behind its reply: the index of mode = current. Harmless when repeated or late: a total only grows, and what
-- the item store says (hidden, another date) is never undone.
--
-- KEYS 1 hot:current:{hour}  2 hot:current:index  3 hot:published  4 hot:hidden
-- ARGV 1 id  2 total  3 hour  4 publish time  5 1: the publish time was first seen with this view  6 1: the sum began anew  7 TTL of the
--      bucket s  8 most members
-- Returns 1 when written.
local id, total, hour, date = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local max = -tonumber(ARGV[8]) - 1
local dark_until = tonumber(redis.call('ZSCORE', KEYS[4], id) or nil)
if dark_until and dark_until == math.floor(dark_until) then return 0 end  -- not one that is only dated ahead
local known = tonumber(redis.call('ZSCORE', KEYS[3], id) or nil)
if not known or ARGV[5] == '1' then
  if redis.call('ZADD', KEYS[3], date, id) == 1 then redis.call('ZREMRANGEBYRANK', KEYS[3], 0, max) end
elseif known ~= tonumber(date) then
  return 0
end
if ARGV[6] == '1' then
  redis.call('ZADD', KEYS[1], total, id)
else
  redis.call('ZADD', KEYS[1], 'GT', total, id)
end
redis.call('EXPIRE', KEYS[1], ARGV[7])
redis.call('ZADD', KEYS[2], 'GT', total, hour)
return 1
