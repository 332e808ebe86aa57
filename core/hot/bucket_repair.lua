-- Removes members that are dated into another hour from a bucket of mode = current, and sets the
-- bucket's bound in the index to its greatest total.
--
-- KEYS 1 hot:current:index  2 hot:current:{hour}  3 hot:published
-- ARGV 1 the hour  2… the members
-- Returns 1.
local hour = ARGV[1]
for i = 2, #ARGV do
  local date = call('ZSCORE', KEYS[3], ARGV[i])
  if date and floor(date / 3600) ~= hour + 0 then call('ZREM', KEYS[2], ARGV[i]) end
end
local max_total = call('ZREVRANGE', KEYS[2], 0, 0, 'WITHSCORES')[2]
if max_total then call('ZADD', KEYS[1], max_total, hour) else call('ZREM', KEYS[1], hour) end
return 1
