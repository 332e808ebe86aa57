-- An author publishes: items join the outbox, and a job of the recorder pushes them to those who follow now; of an author with too many followers
-- they join what readers pull instead, and the job is done at once, as it is without followers.
--
-- KEYS 1 follow:outbox:{author}  2 follow:readers:{author}  3 follow:pull:{author}  4 follow:pulled  5 job:{id}  6 recorder:stream
-- ARGV 1 author  2 id of the job  3 most items of an outbox  4 most followers that are pushed to  5 most entries of the stream  6 TTL of the job s
--      7… items, the last becomes the newest
-- Returns the number of followers who are pushed to. Errors, before the first write: STREAM_FULL.
--@include timeline
local call, most, followers = redis.call, tonumber(ARGV[3]), redis.call('ZCOUNT', KEYS[2], '(0', '+inf')
local pulled = followers > tonumber(ARGV[4])
if pulled then followers = 0 end
if followers > 0 and call('XLEN', KEYS[6]) >= tonumber(ARGV[5]) then return redis.error_reply('STREAM_FULL the recorder does not keep up') end
local now, items = clock_ms(), {unpack(ARGV, 7)}
local upto = mark(KEYS[2], ':')
if pulled then push(KEYS[3], items, most, now) end
push(KEYS[1], items, most, now)
if pulled then call('ZADD', KEYS[4], whole(mark(KEYS[3], ':')), ARGV[1]) end
call('HSET', KEYS[5], 'state', followers > 0 and 'queued' or 'done', 'done', 0, 'total', followers, 'failed', 0)
call('EXPIRE', KEYS[5], ARGV[6])
if followers > 0 then
  call('XADD', KEYS[6], '*', 'op', 'fanout', 'author', ARGV[1], 'items', table.concat(items, ' '), 'upto', whole(upto), 'job', ARGV[2])
end
return followers
