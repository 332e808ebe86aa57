-- Writes or removes an item, after its indexes were updated (item_index.lua).
--
-- KEYS 1 item:{id}  2 hot:article:{id}
-- ARGV 1 the item's revision (`rev`) as the caller read it, '': none
--      2 its publish time as read (the item's, else that of its first event)  3 1: remove
--      4 1: hidden  5 publish time  6 for how many s a removed item stays known as removed
--      7 base hours and 8 gamma of view.lua  9… the item's fields and values
-- Returns the time, unix s; 'RETRY' if the item has changed since the caller read it (nothing is
-- written).
--@include version
--@include increments
local item, article, rev = KEYS[1], KEYS[2], ARGV[1]
local fields = call('HMGET', article, 'date', 'first', 'v', 'increments')
if (call('HGET', item, 'rev') or '') ~= rev or (fields[1] or fields[2] or '') ~= ARGV[2] then return 'RETRY' end
local ttl, time = ARGV[6], call('TIME')
local clock, v = time[1], version_after(fields[3], time)
call('DEL', item)
call('HSET', item, 'rev', (tonumber(rev) or 0) + 1)
if ARGV[3] == '1' then
  -- A late event must not bring the item back as an unknown one.
  call('HSET', item, 'hidden', 1, 'deleted', 1)
  call('EXPIRE', item, ttl)
  call('HSET', article, 'hidden', 1, 'v', v)
  call('HDEL', article, 'date', 'early')
  call('EXPIRE', article, ttl)
else
  call('HSET', item, unpack(ARGV, 9))
  call('HSET', article, 'date', ARGV[5], 'hidden', ARGV[4], 'v', v)
  if fields[4] then
    local _, redate = increments_library()
    redate(article, fields[4], fields[2] + 0, ARGV[5] + 0, clock + 0, ARGV[7] + 0, ARGV[8] + 0)
  end
  call('HDEL', article, 'first', 'dated', 'begin', 'early')
  if ARGV[5] + 0 > clock + 0 then call('HSET', article, 'early', clock) end
  call('PERSIST', article)
end
return clock
