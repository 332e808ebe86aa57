-- Adds an item to the indexes that lists are built from, or removes it, according to its date, tags
-- and visibility. Scores in ranks are written by the caller (core/hot/rank_updater.h).
--
-- KEYS 1 hot:published  2 hot:current:index  3 hot:hidden  4 hot:newest  5 hot:current:{hour} of the old publish time
--      6… the rank of each model and its versions, such as hot:rank and hot:placed, then tag:{tag}
--      of the tags it loses, then of those it has
-- ARGV 1 id  2 1: it is removed  3 1: hidden  4 publish time  5 1: the publish time changed
--      6 for how many s a removed item stays hidden  7 number of models  8 number of tags it loses
-- Returns 2 if its visibility in lists has changed, so that they are outdated; 1 if it is in a
-- rank; else 0.
local id = ARGV[1]
local published, index, hidden, newest, bucket = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local removed, not_visible, date, ttl = ARGV[2] == '1', ARGV[2] == '1' or ARGV[3] == '1', tonumber(ARGV[4]), ARGV[6]
local clock, in_rank, first_tag = tonumber(call('TIME')[1]), false, 6 + 2 * ARGV[7]
for i = 6, first_tag - 1, 2 do in_rank = in_rank or call('ZSCORE', KEYS[i], id) end
local hidden_until = tonumber(call('ZSCORE', hidden, id) or nil)
local was_hidden = hidden_until and hidden_until > clock
local in_future = date > clock
if not_visible or ARGV[5] == '1' then call('ZREM', bucket, id) end
if not_visible then
  for i = 6, first_tag - 1 do call(i % 2 == 0 and 'ZREM' or 'HDEL', KEYS[i], id) end
  call('ZREM', published, id)
  call('ZREM', newest, id)
  call('ZREMRANGEBYSCORE', hidden, '-inf', clock - 3600)  -- keeps embargoes that lists may not have noticed yet
  call('ZADD', hidden, removed and clock + ttl or '+inf', id)
else
  -- An embargoed item is in all indexes already; readers of them skip it until its date.
  if in_future then call('ZADD', hidden, format('%.1f', date - 0.5), id) else call('ZREM', hidden, id) end
  call('ZADD', published, 'XX', date, id)
  call('ZADD', newest, date, id)
  call('ZREMRANGEBYRANK', newest, 0, -1001 - call('ZCOUNT', newest, '(' .. clock, '+inf'))
end
-- Remove the hour from the index when its bucket is empty.
if call('EXISTS', bucket) == 0 then call('ZREM', index, bucket:match('current:(%-?%d+)')) end
local first_kept_tag = first_tag + ARGV[8]
for i = first_tag, #KEYS do call(i < first_kept_tag and 'SREM' or 'SADD', KEYS[i], id) end
if (not_visible or in_future) ~= (was_hidden or false) then return 2 end
return in_rank and 1 or 0
