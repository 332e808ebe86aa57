-- Writes or removes an item, behind its places (item_places.lua).
--
-- KEYS 1 item:{id}  2 hot:article:{id}
-- ARGV 1 how often it was written (`rev`) as the caller read it, '': never  2 its publish time likewise (the item's, else that of its first event)
--      3 1: remove  4 1: hidden  5 publish time  6 for how many s it is remembered that an item was removed  7… the item's fields and values
-- Returns 'RETRY' when the item is not as the caller read it (nothing is written); else {the time, unix s; 2 when what a list shows of it has
-- changed, 1 when only what other pages do has, else 0}.
local call = redis.call
local old = call('HMGET', KEYS[1], 'tags', 'published_at', 'title', 'url', 'author', 'update_time', 'hidden', 'deleted', 'rev')
local had = call('HMGET', KEYS[2], 'date', 'first', 'v')
if (old[9] or '') ~= ARGV[1] or (had[1] or had[2] or '') ~= ARGV[2] then return 'RETRY' end
local date, ttl, time = tonumber(ARGV[5]), ARGV[6], call('TIME')
local clock = tonumber(time[1])
local v = string.format('%d', math.max((had[3] or 0) + 1, clock * 1000000 + time[2]))
call('DEL', KEYS[1])
call('HSET', KEYS[1], 'rev', (old[9] or 0) + 1)
if ARGV[3] == '1' then
  -- A late report of a reader must not bring it back as an unknown item.
  call('HSET', KEYS[1], 'hidden', 1, 'deleted', 1)
  call('EXPIRE', KEYS[1], ttl)
  call('HSET', KEYS[2], 'hidden', 1, 'v', v)
  call('HDEL', KEYS[2], 'date', 'early')
  call('EXPIRE', KEYS[2], ttl)
else
  call('HSET', KEYS[1], unpack(ARGV, 7))
  call('HSET', KEYS[2], 'date', date, 'hidden', ARGV[4], 'v', v)
  if date > clock then
    call('HDEL', KEYS[2], 'first')
    call('HSET', KEYS[2], 'early', clock)
  else
    call('HDEL', KEYS[2], 'first', 'early')
  end
  call('PERSIST', KEYS[2])
end
local now = call('HMGET', KEYS[1], 'tags', 'published_at', 'title', 'url', 'author', 'update_time', 'hidden', 'deleted')
for i = 1, 8 do
  if now[i] ~= old[i] then return {clock, i < 6 and 2 or 1} end
end
return {clock, 0}
