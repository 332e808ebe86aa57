-- Counts a report of reading: PV once per session and window, UV, and the session's longest dwell
-- time. A report that counts a page view also counts a view (parts/add_view.lua): the session's
-- window is its deduplication.
--
-- KEYS 1 hot:article:{id}  2 hot:uv:hll:{id}  3 hot:session:{id}:{session}  4 hot:uv:{id}:{yyyymmdd}
--      [5 hot:event:{id}:{event}]
-- ARGV 1 visitor, '': beyond limits.pv_per_network  2 dwell ms  3 publish time or ''
--      4 time of the event or '' (now)  5 session window s, 0: every report counts  6 counter TTL s
--      7 unknown articles 0: accept, 1: reject, 2: accept if listed, 3: accept; within an hour of the
--      first event, a later publish time replaces a client's (parts/add_view.lua)  8 '' or the most ms that a session's
--      first report can claim  9 1: from a client, '': from the site  10 days since 1970 of KEYS 4,
--      '': page views are not views  then of views: 11 UV TTL s  12 counter TTL s  13 w_pv  14 w_uv
--      15 base hours  16 gamma  17 hot.birth_views
-- Returns 'pv uv ms first published hidden v now', what this report added, 'pv uv ms', and of its
-- view 'new_today inc total score' as view.lua does, zeros if it counts none. The first eleven are
-- integers. Then a status: 0; 2 or 3 as below; and, if a page view was counted, the field `trend`. first: start of the decay; now: the time that the event was counted with. A repeated
-- event id returns the first reply (stored in its key) with nothing added.
-- A report beyond limits.pv_per_network never counts a visitor. It adds dwell time if its session has
-- been counted; otherwise it is refused: nothing is written, and the status is 2. If a publish time
-- replaced a client's, it is 3.
-- Errors: DAY n when Redis' UTC day is n and not ARGV 10; UNKNOWN_ITEM; UNLISTED (call
-- unlisted.lua); NOT_VISIBLE (a client's report of a hidden or embargoed item: count it as that of an
-- unknown id). All before the first write, since Lua has no rollback.
--
-- A session's key holds 'dwell begin': its longest dwell time, and the ms at which it began
-- according to its first report. An untrusted client (ARGV 8) can claim that much at first, and
-- later at most the time since `begin` plus 5 s, because reports travel at different speeds.
--
-- Each register that changes adds to `uv` the 1/P visitors that one stands for: P = sum of 2^-k
-- exp(-x 2^(1-k)), x = uv / 16384, and 1/P is 1.3863 x + exp(-0.77 x) within 2.1 per cent; rounded
-- to whole visitors, since Redis writes a fraction with 17 digits. PFCOUNT is called only above
-- 100, after each half a per cent; `counted` is its last result.
-- This is the hottest script: a command costs 1 to 2 µs, an arithmetic operation 0.1.
--@include version
--@include increments
--@include add_view
--@include trend
local dwell, window, ttl, event, day = ARGV[2] + 0, ARGV[5], ARGV[6] + 0, KEYS[5], tonumber(ARGV[10])
if event then
  local earlier_reply = call('GET', event)
  if earlier_reply then return earlier_reply end
end
local time = call('TIME')
local clock = time[1] + 0
local now = clock
if ARGV[4] ~= '' then
  now = min(ARGV[4] + 0, clock)
elseif day and day ~= floor(clock / 86400) then
  return redis.error_reply(format('DAY %d', floor(clock / 86400)))
end
local fields = call('HMGET', KEYS[1], 'pv', 'uv', 'counted', 'ms', 'renewed', 'first', 'date', 'hidden', 'early', 'v', 'uv_correction', 'nets', 'dated', 'begin',
  'total', 'score', 'views', 'viewed', 'increments', 'trend')
local date, is_from_client = fields[7] and fields[7] + 0, ARGV[9] == '1'
if is_from_client and (fields[8] == '1' or date and date > clock) then
  if ARGV[7] == '1' then date = nil else return redis.error_reply('NOT_VISIBLE hidden or embargoed') end
end
if not date and ARGV[7] == '1' then return redis.error_reply('UNKNOWN_ITEM unknown item') end
local nets = fields[12]
if ARGV[7] == '2' and not date and fields[8] ~= '1' and (not fields[10] or nets and nets:sub(1, 1) ~= '+') then
  return redis.error_reply('UNLISTED the article is unverified')
end

-- All arguments are valid from here on. The hash of a PUT item outlives its counters, which expire
-- after their TTL nevertheless.
local pv, uv, counted, ms, correction = 0, 0, 100, 0, 0
local live = fields[1] and clock < (fields[5] or 0) + ttl
if live then
  pv, uv, counted, ms, correction = fields[1] + 0, fields[2] + 0, (fields[3] or counted) + 0, fields[4] + 0, (fields[11] or 0) + 0
end

-- The item store's date takes precedence, then the first that the site's own reports name, then the
-- client's with the first event, or a later one of the first hour. A date in the future counts as
-- now; `early` stores that time, so that the start of the decay can be told from the date.
local client_date = fields[6] and fields[6] + 0
local published, named = date or client_date, tonumber(ARGV[3])
local is_first_event, is_site_dated = not published, date or fields[13]
local has_new_site_date = not is_site_dated and named and not is_from_client
local later = ARGV[7] == '3' and not is_site_dated and later_date(named, client_date, fields[14], now)
if is_first_event or has_new_site_date then published = min(named or now, now) elseif later then published = later end
local redated = (has_new_site_date or later) and client_date and client_date ~= published
local in_future = published > clock
local first = in_future and clock or published
if ARGV[1] == '' and (window == '0' or not live or call('EXISTS', KEYS[3]) == 0) then
  return format('%d %d %d %d %d %d %s %d 0 0 0 0 0 0 0 2', pv, max(0, uv - correction), ms, first, published, fields[8] or 0, fields[10] or 0, now)
end
if fields[1] and not live then
  call('DEL', KEYS[2])
  call('HDEL', KEYS[1], 'uv_correction', 'shown', 'imported')
end
if nets then  -- the article is listed from now on: each network counts as a visitor
  if nets:sub(1, 1) == '+' then nets = nets:sub(2) end
  for at = 1, 2 * uv, 2 do call('PFADD', KEYS[2], nets:sub(at, at + 1)) end
  call('HDEL', KEYS[1], 'nets', 'nets_since')
  call('EXPIRE', KEYS[2], ttl)
  if not date then call('EXPIRE', KEYS[1], ttl, 'GT') end
end

-- The session's key holds its longest dwell time; each report renews its window.
local counts, added_ms, max_claim = true, dwell, ARGV[8] ~= '' and ARGV[8] + 0
if max_claim and dwell > max_claim then added_ms = max_claim end
if window ~= '0' then
  local at_ms = now * 1000
  local before = call('SET', KEYS[3], format('%d %d', added_ms, at_ms - added_ms), 'NX', 'GET', 'EX', window)
  if before then
    local longest, begin = before:match('^(%d+) (%d+)$')
    longest, begin = longest + 0, begin + 0
    if ARGV[4] ~= '' then begin = min(begin, at_ms - added_ms) end  -- a spooled report may be the session's first
    if max_claim then dwell = max(0, min(dwell, at_ms - begin + 5000)) end
    local new_longest = max(dwell, longest)
    call('SET', KEYS[3], new_longest .. ' ' .. begin, 'EX', window)
    added_ms = dwell
    if live then counts, added_ms = false, new_longest - longest end  -- otherwise the counters have expired
  end
end
ms = ms + added_ms
if counts then pv = pv + 1 end
local uv_before = uv
local register_changed = ARGV[1] ~= '' and call('PFADD', KEYS[2], ARGV[1]) == 1
if register_changed then
  if uv >= 1.005 * counted then
    uv = call('PFCOUNT', KEYS[2])
    counted = uv
  else
    local x = uv / 16384
    uv = uv + floor(1.3863 * x + math.exp(-0.77 * x) + 0.5)
  end
end

local v, next_v, changes, counters_ttl = fields[10] or 0, version_after(fields[10], time), {'pv', format('%d', pv), 'uv', format('%d', uv), 'ms', format('%d', ms)}, 0
if fields[3] or counted ~= 100 then append(changes, 'counted', counted) end
if in_future then
  append(changes, 'early', first)
elseif fields[9] then
  call('HDEL', KEYS[1], 'early')
end
local views_score = tonumber(fields[16] or 0)
if has_new_site_date or later then
  append(changes, 'first', first)
  if has_new_site_date then append(changes, 'dated', 1) end
  if client_date then
    local _, redate = increments_library()
    views_score = redate(KEYS[1], fields[19], client_date, first, clock, ARGV[15] + 0, ARGV[16] + 0, later) or views_score
  end
elseif is_first_event then
  append(changes, 'first', first)
  if ARGV[7] == '3' then append(changes, 'begin', now) end
end
local first_today, inc, total, score, trend = 0, 0, 0, 0, ''
if counts and day then
  first_today, inc, total, score, counters_ttl =
    add_view(changes, KEYS[4], ARGV[1], 11, fields, 15, views_score, published, is_site_dated or has_new_site_date, now, clock, next_v)
end
if not (live or fields[17] and not fields[1]) then append(changes, 'began', next_v) end
if not (fields[1] or fields[17]) then append(changes, 'views_began', next_v) end
if counts then
  trend = trend_after(fields[20], now, clock, pv + (fields[17] or 0), ARGV[17] + 0, min(published, now))
  append(changes, 'trend', trend)
end
-- Renewing once a day is enough. The hash of a PUT item has no TTL; any other hash lives as long as
-- the longest-lived of its counters.
if counts and not (live and clock - fields[5] <= min(86400, ttl / 2)) then
  append(changes, 'renewed', clock)
  call('EXPIRE', KEYS[2], ttl)
  counters_ttl = max(counters_ttl, ttl)
elseif register_changed and uv_before == 0 then
  call('EXPIRE', KEYS[2], ttl)  -- the first event that counts as a visitor
end
if counts or register_changed or added_ms > 0 or in_future or is_first_event or has_new_site_date or later then
  v = next_v
  call('HSET', KEYS[1], 'v', v, unpack(changes))
end
if counters_ttl > 0 and not date then
  if fields[10] then call('EXPIRE', KEYS[1], counters_ttl, 'GT') else call('EXPIRE', KEYS[1], counters_ttl) end
end

local counters = format('%d %d %d %d %d %d %s %d', pv, max(0, uv - correction), ms, first, published, fields[8] or 0, v, now)
local view_counters = total .. ' ' .. score
if event then call('SET', event, counters .. ' 0 0 0 0 0 ' .. view_counters .. ' 0 ' .. trend, 'EX', 86400) end
return format('%s %d %d %d %d %.17g %s %d ', counters, counts and 1 or 0, uv - uv_before, added_ms, first_today, inc, view_counters, redated and 3 or 0) .. trend
