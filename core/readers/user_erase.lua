-- Asks the recorder to forget a reader, and makes the job that tells how far it is. What any host's spool still holds of them is void from
-- now on, by a tombstone.
--
-- KEYS 1 job:{id}  2 recorder:stream  3… user:erased:{hash} of each of the reader's names
-- ARGV 1 reader  2 id of the job  3 most entries of the stream  4 TTL of the job s  5 of the tombstones s
-- Returns 1. Errors: STREAM_FULL, before the first write.
if redis.call('XLEN', KEYS[2]) >= tonumber(ARGV[3]) then return redis.error_reply('STREAM_FULL the recorder does not keep up') end
local now = redis.call('TIME')[1]
for i = 3, #KEYS do redis.call('SET', KEYS[i], now, 'EX', ARGV[5]) end
redis.call('XADD', KEYS[2], '*', 'op', 'erase', 'reader', ARGV[1], 'job', ARGV[2])
redis.call('HSET', KEYS[1], 'state', 'queued', 'done', 0, 'total', 0, 'failed', 0)
redis.call('EXPIRE', KEYS[1], ARGV[4])
return 1
