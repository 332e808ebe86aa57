-- Puts an item into what lists are made of, or takes it out, as its date, its tags and its being hidden say, but for the places that it gets by
-- what is counted: those the caller gives it (core/hot/rank_updater.h).
--
-- KEYS 1 hot:published  2 hot:current:index  3 hot:hidden  4 hot:newest  5 hot:current:{hour} of the old publish time
--      6… the rank of each model and what is placed in it, as hot:rank and hot:placed, then tag:{tag} of the tags it leaves, then of those it has
-- ARGV 1 id  2 1: it is removed  3 1: hidden  4 publish time  5 1: another than it was  6 for how many s it is remembered that an item was removed
--      7 number of models  8 number of tags it leaves
-- Returns 2 when lists must not show it from now on, or may again: they are wrong then; 1 when it has a place in a rank; else 0.
local id = ARGV[1]
local published, index, dark, newest, bucket = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local removed, gone, date, ttl = ARGV[2] == '1', ARGV[2] == '1' or ARGV[3] == '1', tonumber(ARGV[4]), ARGV[6]
local clock, listed, tags = tonumber(call('TIME')[1]), false, 6 + 2 * ARGV[7]
for i = 6, tags - 1, 2 do listed = listed or call('ZSCORE', KEYS[i], id) end
local dark_until = tonumber(call('ZSCORE', dark, id) or nil)
local was_dark = dark_until and dark_until > clock
local ahead = date > clock
if gone or ARGV[5] == '1' then call('ZREM', bucket, id) end
if gone then
  for i = 6, tags - 1 do call(i % 2 == 0 and 'ZREM' or 'HDEL', KEYS[i], id) end
  call('ZREM', published, id)
  call('ZREM', newest, id)
  call('ZREMRANGEBYSCORE', dark, '-inf', clock - 3600)  -- not an embargo that lists may not have noticed yet
  call('ZADD', dark, removed and clock + ttl or '+inf', id)
else
  -- One that is dated ahead has its places already, and whoever reads them passes it over until its date.
  if ahead then call('ZADD', dark, format('%.1f', date - 0.5), id) else call('ZREM', dark, id) end
  call('ZADD', published, 'XX', date, id)
  call('ZADD', newest, date, id)
  call('ZREMRANGEBYRANK', newest, 0, -1001 - call('ZCOUNT', newest, '(' .. clock, '+inf'))
end
-- An hour that nothing is left of is none of the index.
if call('EXISTS', bucket) == 0 then call('ZREM', index, bucket:match('current:(%-?%d+)')) end
local kept = tags + ARGV[8]
for i = tags, #KEYS do call(i < kept and 'SREM' or 'SADD', KEYS[i], id) end
if (gone or ahead) ~= (was_dark or false) then return 2 end
return listed and 1 or 0
