-- A reader follows an author: the author's newest items join the head of the reader's timeline, and the recorder is told.
--
-- KEYS 1 follow:authors:{reader}  2 follow:readers:{author}  3 follow:outbox:{author}  4 follow:pull:{author}  5 wf:{channel}:{reader}
--      6 recorder:stream
-- ARGV 1 reader  2 author  3 most authors of a reader  4 how many items join  5 most items of a timeline  6 its TTL s  7 most entries of the stream
-- Returns 1; 0 when it was so already. Errors, before the first write: TOO_MANY_FOLLOWS, STREAM_FULL.
--@include timeline
local call, reader, author = redis.call, ARGV[1], ARGV[2]
local follows = call('ZSCORE', KEYS[1], author)
if follows and call('ZSCORE', KEYS[2], reader) then return 0 end
if not follows and call('ZCARD', KEYS[1]) >= tonumber(ARGV[3]) then return redis.error_reply('TOO_MANY_FOLLOWS no more authors') end
if call('XLEN', KEYS[6]) >= tonumber(ARGV[7]) then return redis.error_reply('STREAM_FULL the recorder does not keep up') end
local now, last_pulled = clock_ms(), mark(KEYS[4], ':') + 0  -- + 0: not -0
local newest, items = call('ZREVRANGEBYSCORE', KEYS[3], '+inf', '(0', 'LIMIT', 0, ARGV[4]), {}
for i = #newest, 1, -1 do items[#items + 1] = newest[i] end
local _, is_new = push(KEYS[5], items, tonumber(ARGV[5]), now)
if is_new then call('EXPIRE', KEYS[5], ARGV[6]) end
push(KEYS[2], {reader}, math.huge, now)
call('ZADD', KEYS[1], 'NX', whole(last_pulled), author)
call('XADD', KEYS[6], '*', 'op', 'follow', 'reader', reader, 'author', author, 'at', whole(math.floor(now / 1000)))
return 1
