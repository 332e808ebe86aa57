-- Takes back a dismissal, unless it is of a later time than the undoing; the recorder is told.
--
-- KEYS 1 user:not_interested:{reader}  2 user:not_interested:why:{reader}  [3 recorder:stream, unless keys carry hash tags]
-- ARGV 1 reader  2 item  3 time or '' (now)  4 most entries of the stream, '': any
-- Returns 1; 0 when there was a later dismissal.
-- Error, before the first write: STREAM_FULL.
local call = redis.call
local item, stream, stream_max = ARGV[2], KEYS[3], tonumber(ARGV[4])
local at = tonumber(ARGV[3]) or tonumber(call('TIME')[1])
if (tonumber(call('ZSCORE', KEYS[1], item)) or 0) > at then return 0 end
if stream and stream_max and call('XLEN', stream) >= stream_max then return redis.error_reply('STREAM_FULL the recorder does not keep up') end
if stream then call('XADD', stream, '*', 'op', 'undismiss', 'reader', ARGV[1], 'item', item, 'at', string.format('%.0f', at)) end
call('ZREM', KEYS[1], item)
call('HDEL', KEYS[2], item)
return 1
