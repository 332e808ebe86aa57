-- Takes back what a visitor added to one item's counters. Repeated it takes nothing: what was remembered goes with it.
--
-- KEYS 1 hot:added:{visitor}  2 hot:article:{id}  3 hot:uv:hll:{id}
-- ARGV 1 id  2…5 fields t u v s of the item in KEYS 1 as the caller read them, '' for none  6 pv  7 uv  8 dwell ms, of KEYS 1
--      9 total  10 score, of views  11 views  12 counter TTL s, of engagement  13 of views
-- Returns 1, or 0 when they are not as the caller read them (nothing is written). The caller places the item anew.
--
-- A HyperLogLog forgets nobody: `uv_correction` says by how many its estimate is too high. Who comes again after a purge is in there, and
-- does not count as a visitor again while it lives. An item with no page view left loses it, and the others with it.
local call, id, added, article = redis.call, ARGV[1], KEYS[1], KEYS[2]
local fields = {'t:' .. id, 'u:' .. id, 'v:' .. id, 's:' .. id}
local had = call('HMGET', added, unpack(fields))
for i = 1, 4 do
  if (had[i] or '') ~= ARGV[1 + i] then return 0 end
end
call('HDEL', added, unpack(fields))
local less_pv, less_uv, less_ms, less_views = tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8]), tonumber(ARGV[11])
local time = call('TIME')
local is = call('HMGET', article, 'pv', 'ms', 'renewed', 'uv_correction', 'v', 'views', 'total', 'score', 'viewed')
if not is[5] then return 1 end  -- forgotten meanwhile
call('HSET', article, 'v', string.format('%d', math.max(is[5] + 1, time[1] * 1000000 + time[2])))

if is[1] and time[1] + 0 < (is[3] or 0) + ARGV[12] then
  local pv = is[1] - less_pv
  if pv > 0 then
    call('HSET', article, 'pv', pv, 'ms', math.max(0, is[2] - less_ms), 'uv_correction', (is[4] or 0) + less_uv)
  else
    call('DEL', KEYS[3])
    call('HDEL', article, 'pv', 'uv', 'counted', 'ms', 'renewed', 'uv_correction')
  end
end
if is[6] and less_views > 0 and time[1] + 0 < (is[9] or 0) + ARGV[13] then
  local views, total, score = is[6] - less_views, is[7] - ARGV[9], is[8] - ARGV[10]
  if views > 0 and total > 0 and score > 0 then
    call('HSET', article, 'total', string.format('%.17g', total), 'score', string.format('%.17g', score), 'views', views)
  else
    call('HDEL', article, 'total', 'score', 'views', 'viewed')
  end
end
return 1
