-- Adds a view to a reader's history, which stays distinct and capped, and stores its time in a hash. A view without a time becomes the newest, one with a
-- time is inserted by it.
--
-- KEYS 1 user:views:topic:{reader} or user:views:reply:{reader}  2 user:views:at:{reader}  3 user:events:{reader}  4 feed:state:{reader}
-- ARGV 1 item  2 t (topic) or r (reply)  3 maximum items  4 TTL s  5 time of the view or '' (now)  6 event id or ''
--      7 '1' if the view is merged from another reader's history: it counts however old it is, and goes after views of the same second; else '0'
-- Returns 1; 0 if the view changes nothing, or its event was applied before.
--@include reader_add_view
local clock, events, event = tonumber(call('TIME')[1]), KEYS[3], ARGV[6]
if event ~= '' then  -- as RedisReaderStore::append_applied_event()
  if (tonumber(call('ZSCORE', events, event)) or 0) > clock - 86400 then return 0 end
  call('ZREMRANGEBYSCORE', events, '-inf', clock - 86400)
  call('ZADD', events, clock, event)
  call('ZREMRANGEBYRANK', events, 0, -10001)
  call('EXPIRE', events, 86400)
end
local given = tonumber(ARGV[5])
return add_view(KEYS[1], KEYS[2], KEYS[4], ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4], given and min(given, clock), tonumber(ARGV[7]), clock)
