-- Whether something a reader did may be written, and the memory of its id. Expects: call clock events event ('': none) item_key and stream (nil: not
-- looked at) stream_max (nil: any number). Answers 0 for an event that was applied within a day; refuses what cannot be written; else goes on.
if event ~= '' and (tonumber(call('ZSCORE', events, event)) or 0) > clock - 86400 then return 0 end
if item_key and call('HEXISTS', item_key, 'published_at') == 0 then return redis.error_reply('UNKNOWN_ITEM no such item') end
if stream and stream_max and call('XLEN', stream) >= stream_max then return redis.error_reply('STREAM_FULL the recorder does not keep up') end
if event ~= '' then
--@include reader_remember
end
