-- Writes or removes an item, and everything that follows from its date, its tags and its being hidden.
--
-- KEYS 1 item:{id}  2 hot:first_ts:{id}  3 hot:pv:{id}  4 hot:uv:hll:{id}  5 hot:dwell:sum:{id}  6 hot:dwell:cnt:{id}  7 hot:views:{id}
--      8 recorder:stream  9 hot:rank  10 hot:score  11 hot:published  12 hot:current:index  13 hot:hidden  14 hot:epoch  15 hot:newest
--      16 hot:current:{hour} of the old publish time  17 the same of the new one  18… tag:{tag} of the tags it leaves, then of those it has
-- ARGV 1 id  2 its tags as the caller read them  3 its publish time likewise (the item's, else hot:first_ts)  4 1: remove  5 1: hidden  6 publish time
--      7 the formula's parameters  8 counter TTL s  9 most members of a rank
--      10 number of tags it leaves  11 most entries of the stream, -1: tell it nothing  12… the item's fields and values
-- Returns the error STREAM_FULL (nothing is written); 'RETRY' when the item is not as the caller read it (nothing is written); else 1.
local id = ARGV[1]
local old = redis.call('HMGET', KEYS[1], 'tags', 'published_at', 'title', 'url', 'author', 'uv_less')
local old_date = old[2] or redis.call('GET', KEYS[2]) or ''
if (old[1] or '') ~= ARGV[2] or old_date ~= ARGV[3] then return 'RETRY' end
local removed, hidden, date = ARGV[4] == '1', ARGV[5] == '1', tonumber(ARGV[6])
local ttl, max = tonumber(ARGV[8]), tonumber(ARGV[9])
local clock = tonumber(redis.call('TIME')[1])
local stream, stream_max = KEYS[8], tonumber(ARGV[11])
if stream_max >= 0 then
  if redis.call('XLEN', stream) >= stream_max then return redis.error_reply('STREAM_FULL the recorder does not keep up') end
  if removed then
    redis.call('XADD', stream, '*', 'op', 'delete', 'id', id)
  else
    redis.call('XADD', stream, '*', 'op', 'put', 'id', id, unpack(ARGV, 12))
  end
end

redis.call('DEL', KEYS[1])
if removed then
  -- A late report of a reader must not bring it back as an unknown item.
  redis.call('HSET', KEYS[1], 'hidden', 1, 'deleted', 1)
  redis.call('EXPIRE', KEYS[1], ttl)
else
  redis.call('HSET', KEYS[1], unpack(ARGV, 12))
  redis.call('DEL', KEYS[2])
end
if old[6] then redis.call('HSET', KEYS[1], 'uv_less', old[6]) end
local now = redis.call('HMGET', KEYS[1], 'tags', 'published_at', 'title', 'url', 'author')
local changed = false
for i = 1, 5 do changed = changed or now[i] ~= old[i] end

local z, total, score  -- nil: no place
if not (removed or hidden) then
  local had = redis.call('MGET', KEYS[3], KEYS[5], KEYS[6])
  local pv, sum, cnt = tonumber(had[1] or 0), tonumber(had[2] or 0), tonumber(had[3] or 0)
  local uv, first = math.max(0, redis.call('PFCOUNT', KEYS[4]) - (old[6] or 0)), date
  if first > clock then
    first = clock
    redis.call('HSET', KEYS[1], 'early', clock)
  end
  local formula = ARGV[7]
--@include formula
  local key
  if pv > 0 then
--@include engagement_key
    key = z
  end
  z = key
  local views = redis.call('HMGET', KEYS[7], 'total', 'score')
  total, score = views[1], views[2]
end
local keys, n_gone = {unpack(KEYS, 9, 17)}, tonumber(ARGV[10])
local gone, tags = {18, 17 + n_gone}, {18 + n_gone, #KEYS}
--@include item_place
return 1
