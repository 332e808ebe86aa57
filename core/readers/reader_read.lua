-- All that a recommendation must know of a reader, in one look. Writes nothing.
--
-- KEYS 1 user:views:topic:{reader}  2 user:views:reply:{reader}  3 user:views:at:{reader}  4 user:interactions:{reader}  5 user:not_interested:{reader}
-- ARGV 1 most items of a history  2 most interactions  3 most dismissals  4 their TTL s
-- Returns {{item, …} topics, {item, …} replies, {field, unix s, …} of their times, {letter:item, unix s, …} of what they did, {item, unix s, …} of what
--   they dismissed and has not run out}; everything newest first.
local call = redis.call
--@include distinct_views
local views = tonumber(ARGV[1])
local since = tonumber(call('TIME')[1]) - tonumber(ARGV[4])
return {
  distinct_views(KEYS[1], views),
  distinct_views(KEYS[2], views),
  call('HGETALL', KEYS[3]),
  call('ZREVRANGE', KEYS[4], 0, tonumber(ARGV[2]) - 1, 'WITHSCORES'),
  call('ZREVRANGEBYSCORE', KEYS[5], '+inf', string.format('(%.0f', since), 'WITHSCORES', 'LIMIT', 0, ARGV[3]),
}
