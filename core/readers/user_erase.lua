-- Asks the recorder to forget a reader, and makes the job that tells how far it is. What any host's spool still holds of them is void from
-- now on, by a tombstone.
--
-- KEYS 1 job:{id}  2 recorder:stream  3 recorder:spools  4… user:erased:{hash} of each of the reader's names
-- ARGV 1 reader  2 id of the job  3 most entries of the stream  4 TTL of job and tombstones s  5 ms after which a host that is silent is gone
-- Returns 1. Errors: STREAM_FULL, before the first write.
if redis.call('XLEN', KEYS[2]) >= tonumber(ARGV[3]) then return redis.error_reply('STREAM_FULL the recorder does not keep up') end
local time = redis.call('TIME')
local now = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000))
for i = 4, #KEYS do redis.call('SET', KEYS[i], time[1], 'EX', ARGV[4]) end
local last = redis.call('ZSCORE', KEYS[3], ':erasure')
if last and now - last > tonumber(ARGV[5]) then redis.call('ZREMRANGEBYSCORE', KEYS[3], '-inf', '(' .. last) end
redis.call('ZADD', KEYS[3], now, ':erasure')
redis.call('XADD', KEYS[2], '*', 'op', 'erase', 'reader', ARGV[1], 'job', ARGV[2])
redis.call('HSET', KEYS[1], 'state', 'queued', 'done', 0, 'total', 0, 'failed', 0, 'at', now)
redis.call('EXPIRE', KEYS[1], ARGV[4])
return 1
