-- Counts an anonymous client's event of an unlisted article: once per network. The article is
-- listed when enough networks have reported it and the first report is ten minutes old; until then
-- no more networks than necessary are counted. Everything is in one hash, which expires an hour
-- after the last new network; counting by session, visitor and fingerprint (track.lua, view.lua)
-- starts when the article is listed.
--
-- KEYS 1 hot:article:{id}  [2 hot:event:{id}:{event} or hot:view:event:{id}:{event}]
-- ARGV 1 hash of the network, 2 bytes  2 client's publish time or ''
--      3 time of the event or '' (now)  4 1: may create the article  5 counter TTL s
--      6 dwell ms of a report, '' for a view  7 what a view adds to the sum, '' for a report that is
--      not a view  8 networks that list the article  9 hot.birth_views (parts/trend.lua)
--      10 base hours and 11 gamma of parts/add_view.lua
-- Returns 'LISTED' for a listed article, 'BEGINS' for one that does not exist and may not be
-- created: nothing is written. Otherwise the reply of track.lua or view.lua, with 2 for `hidden`
-- while the article is unlisted, and status 1 if it was created.
--@include version
--@include increments
--@include trend
local network, required_networks, required_s = ARGV[1], ARGV[8] + 0, 600
local is_report, counts_view = ARGV[6] ~= '', ARGV[7] ~= ''
local earlier_reply = KEYS[2] and call('GET', KEYS[2])
if earlier_reply then return earlier_reply end
local fields = call('HMGET', KEYS[1], 'nets', 'v', 'date', 'hidden', 'first', 'pv', 'uv', 'ms', 'views', 'total', 'score', 'nets_since', 'increments', 'trend')
local nets = fields[1] or ''
if fields[3] or fields[4] == '1' or (fields[2] and nets == '') or nets:sub(1, 1) == '+' then return 'LISTED' end
if not fields[2] and ARGV[4] ~= '1' then return 'BEGINS' end
local time = call('TIME')
local clock = time[1] + 0
local now = clock
if ARGV[3] ~= '' then now = min(ARGV[3] + 0, clock) end

local is_known_network = false
for at = 1, #nets, 2 do is_known_network = is_known_network or nets:sub(at, at + 1) == network end
local since = fields[12] and fields[12] + 0 or now
local is_old_enough = now - since >= required_s
local pv, uv, ms = (fields[6] or 0) + 0, (fields[7] or 0) + 0, (fields[8] or 0) + 0
local total, score, inc = (fields[10] or 0) + 0, (fields[11] or 0) + 0, 0
local published = fields[5] and fields[5] + 0 or min(tonumber(ARGV[2]) or now, now)
local v, increment, trend = fields[2], 0, fields[14] or ''
if not is_known_network and (is_old_enough or #nets < 2 * required_networks) then
  nets, increment = nets .. network, 1
end
local listed = is_old_enough and #nets >= 2 * required_networks
if increment == 1 or listed then
  v = version_after(v, time)
  call('HSET', KEYS[1], 'nets', listed and '+' .. nets or nets, 'nets_since', since, 'first', published, 'v', v)
  if listed then call('HSET', KEYS[1], 'began', v, 'views_began', v) end  -- contributions are recorded from now on
  call('EXPIRE', KEYS[1], listed and ARGV[5] or '3600')
end
if increment == 1 then
  trend = trend_after(fields[14], now, clock, pv + (fields[9] or 0) + 1, ARGV[9] + 0, min(published, now))
  call('HSET', KEYS[1], 'trend', trend)
  if is_report then
    pv, uv, ms = pv + 1, uv + 1, ms + ARGV[6]
    call('HSET', KEYS[1], 'pv', pv, 'uv', uv, 'ms', ms, 'renewed', clock)
  end
  if counts_view then
    inc = ARGV[7] / (max(0, now - published) / 3600 + ARGV[10]) ^ (ARGV[11] + 0)
    total, score = total + ARGV[7], score + inc
    -- Three buckets, so that Redis stores the hash compactly (hash-max-listpack-value).
    local add_increment = increments_library()
    local increments = add_increment(fields[13] or '', now, ARGV[7] + 0, 3, ARGV[10] * 3600, ARGV[11] + 0)
    call('HSET', KEYS[1], 'total', format('%.17g', total), 'score', format('%.17g', score), 'views', (fields[9] or 0) + 1, 'viewed', clock,
      'increments', increments)
  end
end
local hidden_flag, created = listed and 0 or 2, fields[2] and 0 or 1
local reply, view_counters
if is_report then
  view_counters = format('%.17g %.17g', total, score)
  reply = format('%d %d %d %d %d %d %s %d', pv, uv, ms, published, published, hidden_flag, v, now)
else
  reply = format('%d %.17g %.17g %.17g %d %d %s', increment, inc, total, score, published, hidden_flag, v)
end
if KEYS[2] then
  call('SET', KEYS[2], reply .. (is_report and format(' 0 0 0 0 0 %s 0 ', view_counters) or ' 0 0 0 ') .. trend, 'EX', 86400)
end
if is_report then
  local first_today = counts_view and increment or 0
  return format('%s %d %d %d %d %.17g %s %d ', reply, increment, increment, increment * ARGV[6], first_today, inc, view_counters, created) .. trend
end
return format('%s %d 0 %d ', reply, increment, created) .. trend
