-- A reader did something with an item: the newest time of each item and kind, of the newest so many; and the recorder is told.
--
-- KEYS 1 user:interactions:{reader}  2 user:events:{reader}  [3 recorder:stream, unless keys carry hash tags]  [4 item:{item}: it must have been put]
-- ARGV 1 reader  2 item  3 letter of the kind  4 time or '' (now)  5 event id or ''  6 most interactions  7 TTL s  8 most entries of the stream, '': any
-- Returns 1; 0 when the event was applied before.
-- Errors, before the first write: UNKNOWN_ITEM, STREAM_FULL.
local call = redis.call
local clock = tonumber(call('TIME')[1])
local at = string.format('%.0f', math.min(tonumber(ARGV[4]) or clock, clock))
local events, event, stream, stream_max, item_key = KEYS[2], ARGV[5], KEYS[3], tonumber(ARGV[8]), KEYS[4]
--@include reader_event
if stream then call('XADD', stream, '*', 'op', 'interaction', 'reader', ARGV[1], 'item', ARGV[2], 'kind', ARGV[3], 'at', at) end
call('ZADD', KEYS[1], 'GT', at, ARGV[3] .. ':' .. ARGV[2])
call('ZREMRANGEBYRANK', KEYS[1], 0, -tonumber(ARGV[6]) - 1)
call('EXPIRE', KEYS[1], ARGV[7])
return 1
