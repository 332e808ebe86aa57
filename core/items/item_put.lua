-- Writes or removes an item, behind its places (item_places.lua).
--
-- KEYS 1 item:{id}  2 hot:article:{id}
-- ARGV 1 how often it was written (`rev`) as the caller read it, '': never  2 its publish time likewise (the item's, else that of its first event)
--      3 1: remove  4 1: hidden  5 publish time  6 for how many s it is remembered that an item was removed  7… the item's fields and values
-- Returns the time, unix s; 'RETRY' when the item is not as the caller read it (nothing is written).
--@include version
local item, article, rev = KEYS[1], KEYS[2], ARGV[1]
local had = call('HMGET', article, 'date', 'first', 'v')
if (call('HGET', item, 'rev') or '') ~= rev or (had[1] or had[2] or '') ~= ARGV[2] then return 'RETRY' end
local ttl, time = ARGV[6], call('TIME')
local clock, v = time[1], version_after(had[3], time)
call('DEL', item)
call('HSET', item, 'rev', (tonumber(rev) or 0) + 1)
if ARGV[3] == '1' then
  -- A late report of a reader must not bring it back as an unknown item.
  call('HSET', item, 'hidden', 1, 'deleted', 1)
  call('EXPIRE', item, ttl)
  call('HSET', article, 'hidden', 1, 'v', v)
  call('HDEL', article, 'date', 'early')
  call('EXPIRE', article, ttl)
else
  call('HSET', item, unpack(ARGV, 7))
  call('HSET', article, 'date', ARGV[5], 'hidden', ARGV[4], 'v', v)
  call('HDEL', article, 'first', 'early')
  if ARGV[5] + 0 > clock + 0 then call('HSET', article, 'early', clock) end
  call('PERSIST', article)
end
return clock
