-- Counts a view once per fingerprint and window: score += (w_pv + w_uv·first_today) / (hours +
-- base)^gamma.
--
-- KEYS 1 hot:article:{id}  2 hot:dedup:{id}:{fingerprint}  3 hot:uv:{id}:{yyyymmdd}  [4 hot:view:event:{id}:{event}]
-- ARGV 1 fingerprint, '': beyond limits.pv_per_network  2 publish time or ''
--      3 days since 1970 of KEYS 3  4 time of the event or '' (now)  5 dedup window s  6 UV TTL s
--      7 counter TTL s  8 w_pv  9 w_uv  10 base hours  11 gamma
--      12 unknown articles 0: accept, 1: reject, 2: accept if listed
--      13 1: from a client, '': from the site, whose publish time replaces a client's
-- Returns 'dedup', 'refused' for a view beyond the limit, which writes nothing, or
-- 'uv inc total score published hidden v new': uv 1 for the fingerprint's first
-- view of the day; the increment; the undecayed sum; the accumulated score; the publish time; new: 1,
-- or 0 for a repeated event id. A final 3 follows if the publish time replaced a client's. Fractions
-- as %.17g.
-- Errors, all before the first write: DAY n when Redis' UTC day is n and not ARGV 3; UNKNOWN_ITEM;
-- UNLISTED (call unlisted.lua); NOT_VISIBLE (as in track.lua).
--@include version
--@include increments
local ttl, w_pv, w_uv, base_hours, gamma = ARGV[7] + 0, ARGV[8] + 0, ARGV[9] + 0, ARGV[10] + 0, ARGV[11] + 0
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
local fields = call('HMGET', KEYS[1], 'total', 'score', 'views', 'viewed', 'first', 'date', 'hidden', 'v', 'nets', 'dated', 'increments')
local date, is_from_client = fields[6], ARGV[13] == '1'
if is_from_client and (fields[7] == '1' or date and date + 0 > clock) then
  if ARGV[12] == '1' then date = nil else return redis.error_reply('NOT_VISIBLE hidden or embargoed') end
end
if not date and ARGV[12] == '1' then return redis.error_reply('UNKNOWN_ITEM unknown item') end
local nets = fields[9]
local unlisted = not date and fields[7] ~= '1' and (not fields[8] or nets and nets:sub(1, 1) ~= '+')
if unlisted and ARGV[12] == '2' then return redis.error_reply('UNLISTED the article is unverified') end

if ARGV[1] == '' then return ARGV[5] ~= '0' and call('EXISTS', KEYS[2]) == 1 and 'dedup' or 'refused' end
if ARGV[5] ~= '0' and not call('SET', KEYS[2], 1, 'NX', 'EX', ARGV[5]) then
  if event then call('SET', event, 'dedup', 'EX', 86400) end
  return 'dedup'
end
local uv = call('SADD', KEYS[3], ARGV[1])
if uv == 1 then call('EXPIRE', KEYS[3], ARGV[6], 'NX') end
local published, named, increments = tonumber(date or fields[5] or nil), tonumber(ARGV[2]), fields[11]
local score, redated = tonumber(fields[2] or 0), false
local has_site_date = date or fields[10]
if not has_site_date and named and not is_from_client then
  local client_date = published
  published, has_site_date = min(named, now), true
  call('HSET', KEYS[1], 'first', published, 'dated', 1)
  if client_date then
    redated = client_date ~= published
    local _, redate = increments_library()
    score = redate(KEYS[1], increments, client_date, published, clock, base_hours, gamma) or score
  end
elseif not published then
  published = min(named or now, now)
  call('HSET', KEYS[1], 'first', published)
end
local hours = max(0, now - published) / 3600
local inc = (w_pv + w_uv * uv) / (hours + base_hours) ^ gamma

-- The accumulated score of a PUT item outlives its counters.
local total, views, renewed = 0, 0, fields[4] and fields[4] + 0
local live = renewed and clock < renewed + ttl
if live then total, views = tonumber(fields[1]), tonumber(fields[3]) end
total = total + w_pv + w_uv * uv
score = score + inc
local v = version_after(fields[8], time)
if not has_site_date and (increments or not fields[2]) then
  local add_increment = increments_library()
  increments = add_increment(increments or '', now, w_pv + w_uv * uv, 32, base_hours * 3600, gamma)
  call('HSET', KEYS[1], 'total', format('%.17g', total), 'score', format('%.17g', score), 'views', views + 1,
    'v', v, 'increments', increments)
else
  call('HSET', KEYS[1], 'total', format('%.17g', total), 'score', format('%.17g', score), 'views', views + 1,
    'v', v)
end
if not (live and clock - renewed <= min(86400, ttl / 2)) then
  call('HSET', KEYS[1], 'viewed', clock)
  if not date then
    if fields[8] then call('EXPIRE', KEYS[1], ttl, 'GT') else call('EXPIRE', KEYS[1], ttl) end
  end
end
if nets and unlisted then
  call('HSET', KEYS[1], 'nets', '+' .. nets)
  call('EXPIRE', KEYS[1], ttl, 'GT')
end
local reply = format('%d %.17g %.17g %.17g %d %d %s', uv, inc, total, score, published, (fields[7] or 0) + 0, v)
if event then call('SET', event, reply .. ' 0', 'EX', 86400) end
return reply .. (redated and ' 1 3' or ' 1')
