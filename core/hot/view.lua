-- Counts a view once per fingerprint and window: score += (w_pv + w_uv·first_today) / (hours +
-- base)^gamma.
--
-- KEYS 1 hot:article:{id}  2 hot:dedup:{id}:{fingerprint}  3 hot:uv:{id}:{yyyymmdd}  [4 hot:view:event:{id}:{event}]
-- ARGV 1 fingerprint, '': beyond limits.pv_per_network  2 publish time or ''
--      3 days since 1970 of KEYS 3  4 time of the event or '' (now)  5 dedup window s  6 UV TTL s
--      7 counter TTL s  8 w_pv  9 w_uv  10 base hours  11 gamma
--      12 unknown articles (as in track.lua)
--      13 1: from a client, '': from the site, whose publish time replaces a client's
--      14 hot.birth_views
-- Returns 'dedup', 'refused' for a view beyond the limit, which writes nothing, or
-- 'uv inc total score published hidden v new tracked status': uv 1 for the fingerprint's first
-- view of the day; the increment; the undecayed sum; the accumulated score; the publish time; new: 1,
-- or 0 for a repeated event id; tracked: 1 if page views were counted in the last two days. The status is
-- 0, or 3 if the publish time replaced a client's. Then the field `trend`. Fractions as %.17g.
-- Errors, all before the first write: DAY n when Redis' UTC day is n and not ARGV 3; UNKNOWN_ITEM;
-- UNLISTED (call unlisted.lua); NOT_VISIBLE (as in track.lua).
--@include version
--@include increments
--@include add_view
--@include trend
local ttl, base_hours, gamma = ARGV[7] + 0, ARGV[10] + 0, ARGV[11] + 0
local event = KEYS[4]
if event then
  local earlier_reply = call('GET', event)
  if earlier_reply then return earlier_reply end
end
local time = call('TIME')
local clock = time[1] + 0
local now = tonumber(ARGV[4])
if not now then
  now = clock
  local day = floor(clock / 86400)
  if day ~= tonumber(ARGV[3]) then return redis.error_reply(format('DAY %d', day)) end
elseif now > clock then
  now = clock
end
local fields = call('HMGET', KEYS[1], 'total', 'score', 'views', 'viewed', 'increments', 'first', 'date', 'hidden', 'v', 'nets', 'dated', 'begin', 'renewed', 'pv', 'trend')
local date, is_from_client = fields[7], ARGV[13] == '1'
if is_from_client and (fields[8] == '1' or date and date + 0 > clock) then
  if ARGV[12] == '1' then date = nil else return redis.error_reply('NOT_VISIBLE hidden or embargoed') end
end
if not date and ARGV[12] == '1' then return redis.error_reply('UNKNOWN_ITEM unknown item') end
local nets = fields[10]
local unlisted = not date and fields[8] ~= '1' and (not fields[9] or nets and nets:sub(1, 1) ~= '+')
if unlisted and ARGV[12] == '2' then return redis.error_reply('UNLISTED the article is unverified') end

if ARGV[1] == '' then return ARGV[5] ~= '0' and call('EXISTS', KEYS[2]) == 1 and 'dedup' or 'refused' end
if ARGV[5] ~= '0' and not call('SET', KEYS[2], 1, 'NX', 'EX', ARGV[5]) then
  if event then call('SET', event, 'dedup', 'EX', 86400) end
  return 'dedup'
end
local published, named, changes = tonumber(date or fields[6] or nil), tonumber(ARGV[2]), {}
local score, is_site_dated, redated = tonumber(fields[2] or 0), date or fields[11], false
local has_new_site_date = not is_site_dated and named and not is_from_client
local later = ARGV[12] == '3' and not is_site_dated and later_date(named, published, fields[12], now)
if has_new_site_date or later then
  local client_date = published
  published = later or min(named, now)
  append(changes, 'first', published)
  if has_new_site_date then append(changes, 'dated', 1) end
  if client_date then
    redated = client_date ~= published
    local _, redate = increments_library()
    score = redate(KEYS[1], fields[5], client_date, published, clock, base_hours, gamma, later) or score
  end
elseif not published then
  published = min(named or now, now)
  append(changes, 'first', published)
  if ARGV[12] == '3' then append(changes, 'begin', now) end
end
local uv, inc, total, counters_ttl
local v = version_after(fields[9], time)
uv, inc, total, score, counters_ttl =
  add_view(changes, KEYS[3], ARGV[1], 6, fields, 1, score, published, is_site_dated or has_new_site_date, now, clock, v)
if not (fields[3] or fields[14]) then
  append(changes, 'began', v)
  append(changes, 'views_began', v)
end
local trend = trend_after(fields[15], now, clock, (fields[14] or 0) + (fields[3] or 0) + 1, ARGV[14] + 0, min(published, now))
append(changes, 'trend', trend)
call('HSET', KEYS[1], 'v', v, unpack(changes))
if counters_ttl > 0 and not date then
  if fields[9] then call('EXPIRE', KEYS[1], ttl, 'GT') else call('EXPIRE', KEYS[1], ttl) end
end
if nets and unlisted then
  call('HSET', KEYS[1], 'nets', '+' .. nets)
  call('EXPIRE', KEYS[1], ttl, 'GT')
end
local reply = format('%d %.17g %s %s %d %d %s', uv, inc, total, score, published, (fields[8] or 0) + 0, v)
if event then call('SET', event, reply .. ' 0 0 0 ' .. trend, 'EX', 86400) end
local is_tracked = fields[13] and clock - fields[13] < 172800
return reply .. (is_tracked and ' 1 1' or ' 1 0') .. (redated and ' 3 ' or ' 0 ') .. trend
