-- Takes back a dismissal, unless it is of a later time than the undoing; the recorder is told. That it was undone is remembered for a day: a
-- dismissal from before that may still wait in a spool.
--
-- KEYS 1 user:not_interested:{reader}  2 user:events:{reader}  3 user:not_interested:why:{reader}  4 recorder:stream
-- ARGV 1 reader  2 item  3 time or '' (now)  4 most entries of the stream, '': any
-- Returns 1; 0 when there was a later dismissal.
-- Error, before the first write: STREAM_FULL.
local call = redis.call
local item, events, event, stream, stream_max = ARGV[2], KEYS[2], 'undo:' .. ARGV[2], KEYS[4], tonumber(ARGV[4])
local clock = tonumber(call('TIME')[1])
local at = math.min(tonumber(ARGV[3]) or clock, clock)
if (tonumber(call('ZSCORE', KEYS[1], item)) or 0) > at then return 0 end
if stream_max and call('XLEN', stream) >= stream_max then return redis.error_reply('STREAM_FULL the recorder does not keep up') end
call('XADD', stream, '*', 'op', 'undismiss', 'reader', ARGV[1], 'item', item, 'at', string.format('%.0f', at))
call('ZREM', KEYS[1], item)
call('HDEL', KEYS[3], item)
clock = math.max(at, tonumber(call('ZSCORE', events, event)) or 0)  -- when it was undone is what counts
--@include reader_remember
return 1
