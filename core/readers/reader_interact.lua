-- A reader did something with an item: the newest time of each item and kind, of the newest so many; and the recorder is told.
--
-- KEYS 1 user:interactions:{reader}  2 user:events:{reader}  3 user:earlier:{reader}  4 recorder:stream  [5 item:{item}: it must have been put]
-- ARGV 1 reader  2 item  3 letter of the kind  4 time or '' (now)  5 event id or ''  6 most interactions  7 most of user:earlier  8 TTL s
--      9 most entries of the stream, '': any
-- Returns 1; 0 when the event was applied before.
-- Errors, before the first write: UNKNOWN_ITEM, STREAM_FULL.
local call = redis.call
local clock = tonumber(call('TIME')[1])
local at = string.format('%.0f', math.min(tonumber(ARGV[4]) or clock, clock))
local events, event, stream, stream_max, item_key = KEYS[2], ARGV[5], KEYS[4], tonumber(ARGV[9]), KEYS[5]
local done, earlier, most, most_earlier = KEYS[1], KEYS[3], tonumber(ARGV[6]), tonumber(ARGV[7])
--@include reader_event
call('XADD', stream, '*', 'op', 'interaction', 'reader', ARGV[1], 'item', ARGV[2], 'kind', ARGV[3], 'at', at)
call('ZADD', done, 'GT', at, ARGV[3] .. ':' .. ARGV[2])
--@include reader_trim
call('EXPIRE', done, ARGV[8])
call('EXPIRE', earlier, ARGV[8])
return 1
