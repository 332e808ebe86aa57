-- A reader is not interested in an item; the recorder is told. Dismissals that have run out go, and the oldest beyond the cap.
--
-- KEYS 1 user:not_interested:{reader}  2 user:events:{reader}  3 user:not_interested:why:{reader}  4 recorder:stream
--      [5 item:{item}: it must have been put]
-- ARGV 1 reader  2 item  3 reason or ''  4 time or '' (now)  5 event id or ''  6 most dismissals  7 TTL s  8 most entries of the stream, '': any
-- Returns 1; 0 when the event was applied before, or the dismissal was undone at a later time than its own.
-- Errors, before the first write: UNKNOWN_ITEM, STREAM_FULL.
local call = redis.call
local item, reason, most, ttl = ARGV[2], ARGV[3], tonumber(ARGV[6]), tonumber(ARGV[7])
local clock = tonumber(call('TIME')[1])
local at = string.format('%.0f', math.min(tonumber(ARGV[4]) or clock, clock))
local events, event, stream, stream_max, item_key = KEYS[2], ARGV[5], KEYS[4], tonumber(ARGV[8]), KEYS[5]
if ARGV[4] ~= '' and (tonumber(call('ZSCORE', events, 'undo:' .. item)) or -1) >= tonumber(at) then return 0 end  -- see reader_undismiss.lua
--@include reader_event
call('XADD', stream, '*', 'op', 'dismiss', 'reader', ARGV[1], 'item', item, 'at', at, unpack(reason ~= '' and {'reason', reason} or {}))
call('ZADD', KEYS[1], 'GT', at, item)
if reason ~= '' then call('HSET', KEYS[3], item, reason) else call('HDEL', KEYS[3], item) end
local function drop(items)
  for _, each in ipairs(items) do
    call('ZREM', KEYS[1], each)
    call('HDEL', KEYS[3], each)
  end
end
drop(call('ZRANGEBYSCORE', KEYS[1], '-inf', clock - ttl))
drop(call('ZRANGE', KEYS[1], 0, -most - 1))
call('EXPIRE', KEYS[1], ttl)
call('EXPIRE', KEYS[3], ttl)
return 1
