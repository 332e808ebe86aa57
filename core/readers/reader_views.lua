-- A reader's history of one kind, newest first.
--
-- KEYS 1 user:views:topic:{reader} or user:views:reply:{reader}  2 user:views:at:{reader}
-- ARGV 1 t (topic) or r (reply)  2 most items
-- Returns {item, unix s, …}; the time is '0' when none is known (a list that something else has written).
--@include distinct_views
local out = {}
for i, item in ipairs(distinct_views(KEYS[1], tonumber(ARGV[2]))) do
  out[2 * i - 1] = item
  out[2 * i] = redis.call('HGET', KEYS[2], ARGV[1] .. ':' .. item) or '0'
end
return out
