-- Writes or removes an item, and everything that follows from its date, its tags and its being hidden, but for the places that it gets by what is
-- counted: those the caller gives it (core/hot/placing.h).
--
-- KEYS 1 item:{id}  2 hot:article:{id}  3 recorder:stream  4 hot:published  5 hot:current:index  6 hot:hidden  7 hot:epoch  8 hot:newest
--      9 hot:current:{hour} of the old publish time  10… the rank of each model and what is placed in it, as hot:rank and hot:placed, then tag:{tag} of the
--      tags it leaves, then of those it has
-- ARGV 1 id  2 its tags as the caller read them  3 its publish time likewise (the item's, else that of its first event)  4 1: remove  5 1: hidden
--      6 publish time  7 for how many s it is remembered that an item was removed  8 number of models  9 number of tags it leaves
--      10 most entries of the stream, -1: tell it nothing  11… the item's fields and values
-- Returns the error STREAM_FULL (nothing is written); 'RETRY' when the item is not as the caller read it (nothing is written); else the time, unix s.
local id, call = ARGV[1], redis.call
local old = call('HMGET', KEYS[1], 'tags', 'published_at', 'title', 'url', 'author', 'update_time', 'hidden', 'deleted')
local had = call('HMGET', KEYS[2], 'date', 'first', 'v')
if (old[1] or '') ~= ARGV[2] or (had[1] or had[2] or '') ~= ARGV[3] then return 'RETRY' end
local removed, hidden, date = ARGV[4] == '1', ARGV[5] == '1', tonumber(ARGV[6])
local ttl = tonumber(ARGV[7])
local time = call('TIME')
local clock = tonumber(time[1])
local stream, stream_max = KEYS[3], tonumber(ARGV[10])
if stream_max >= 0 then
  if call('XLEN', stream) >= stream_max then return redis.error_reply('STREAM_FULL the recorder does not keep up') end
  if removed then
    call('XADD', stream, '*', 'op', 'delete', 'id', id)
  else
    call('XADD', stream, '*', 'op', 'put', 'id', id, unpack(ARGV, 11))
  end
end

local v = string.format('%d', math.max((had[3] or 0) + 1, clock * 1000000 + time[2]))
call('DEL', KEYS[1])
if removed then
  -- A late report of a reader must not bring it back as an unknown item.
  call('HSET', KEYS[1], 'hidden', 1, 'deleted', 1)
  call('EXPIRE', KEYS[1], ttl)
  call('HSET', KEYS[2], 'hidden', 1, 'v', v)
  call('HDEL', KEYS[2], 'date', 'early')
  call('EXPIRE', KEYS[2], ttl)
else
  call('HSET', KEYS[1], unpack(ARGV, 11))
  call('HSET', KEYS[2], 'date', date, 'hidden', hidden and 1 or 0, 'v', v)
  if date > clock then
    call('HDEL', KEYS[2], 'first')
    call('HSET', KEYS[2], 'early', clock)
  else
    call('HDEL', KEYS[2], 'first', 'early')
  end
  call('PERSIST', KEYS[2])
end
local now = call('HMGET', KEYS[1], 'tags', 'published_at', 'title', 'url', 'author', 'update_time', 'hidden', 'deleted')
local changed, card_changed = false, false  -- what a list shows of it; what any page does
for i = 1, 8 do
  card_changed = card_changed or now[i] ~= old[i]
  changed = changed or (i < 6 and card_changed)
end

-- Where it stands in the sets that lists are made of.
local published, index, newest, listed, tags = KEYS[4], KEYS[5], KEYS[8], false, 10 + 2 * ARGV[8]
for i = 10, tags - 1, 2 do listed = listed or call('ZSCORE', KEYS[i], id) end
local dark_until = tonumber(call('ZSCORE', KEYS[6], id) or nil)
local was_dark = dark_until and dark_until > clock
local ahead = date > clock
if removed or hidden or ARGV[6] ~= ARGV[3] then call('ZREM', KEYS[9], id) end
if removed or hidden then
  for i = 10, tags - 1 do call(i % 2 == 0 and 'ZREM' or 'HDEL', KEYS[i], id) end
  call('ZREM', published, id)
  call('ZREM', newest, id)
  call('ZREMRANGEBYSCORE', KEYS[6], '-inf', clock - 3600)  -- not an embargo that lists may not have noticed yet
  call('ZADD', KEYS[6], removed and clock + ttl or '+inf', id)
else
  -- One that is dated ahead has its places already, and whoever reads them passes it over until its date.
  if ahead then call('ZADD', KEYS[6], string.format('%.1f', date - 0.5), id) else call('ZREM', KEYS[6], id) end
  call('ZADD', published, 'XX', date, id)
  call('ZADD', newest, date, id)
  call('ZREMRANGEBYRANK', newest, 0, -1001 - call('ZCOUNT', newest, '(' .. clock, '+inf'))
end
-- An hour that nothing is left of is none of the index.
if call('EXISTS', KEYS[9]) == 0 then call('ZREM', index, string.match(KEYS[9], '%-?%d+$')) end
local kept = tags + ARGV[9]
for i = tags, #KEYS do call(i < kept and 'SREM' or 'SADD', KEYS[i], id) end
-- Lists that show it, or showed it a moment ago, are wrong now; what workers know of it is (core/items/card_cache.h).
local dark = removed or hidden or ahead
local gone_dark = dark and not was_dark
local back = was_dark and not dark
if gone_dark or back or (listed and changed) then
  call('INCR', KEYS[7])
  call('PUBLISH', KEYS[7], 'list ' .. id)
elseif card_changed then
  call('PUBLISH', KEYS[7], 'card ' .. id)
end
return clock
