-- A view, counted once per fingerprint and window: score += (w_pv + w_uv·first_today) / (hours + base)^gamma.
--
-- KEYS 1 hot:article:{id}  2 hot:dedup:{id}:{fingerprint}  3 hot:uv:{id}:{yyyymmdd}  [4 hot:view:event:{id}:{event}]
-- ARGV 1 fingerprint, '': no visitor more  2 client's publish time or ''  3 days since 1970 of KEYS 3  4 time of the event or '' (now)  5 dedup window s  6 UV TTL s
--      7 counter TTL s  8 w_pv  9 w_uv  10 base hours  11 gamma  12 of unknown articles 0: taken, 1: refused, 2: taken when somebody vouched for them
-- Returns 'dedup', or 'uv inc total score published hidden v new': uv 1 for the day's first view; what was added; the undecayed sum; the accumulated
-- score; the publish time; new 0 for an event id that was answered before. Fractions as %.17g.
-- Errors, all before the first write: DAY n when Redis' UTC day is n and not ARGV 3; UNKNOWN_ITEM; UNLISTED (unlisted.lua counts it).
--@include version
local ttl, w_pv, w_uv, base_hours, gamma = ARGV[7] + 0, ARGV[8] + 0, ARGV[9] + 0, ARGV[10] + 0, ARGV[11] + 0
local event = KEYS[4]
if event then
  local said = call('GET', event)
  if said then return said end
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
local had = call('HMGET', KEYS[1], 'total', 'score', 'views', 'viewed', 'first', 'date', 'hidden', 'v', 'nets')
local date = had[6]
if not date and ARGV[12] == '1' then return redis.error_reply('UNKNOWN_ITEM no such item') end
local nets = had[9]
local unlisted = not date and had[7] ~= '1' and (not had[8] or nets and nets:sub(1, 1) ~= '+')
if unlisted and ARGV[12] == '2' then return redis.error_reply('UNLISTED nobody vouched for it') end

if ARGV[5] ~= '0' and not call('SET', KEYS[2], 1, 'NX', 'EX', ARGV[5]) then
  if event then call('SET', event, 'dedup', 'EX', 86400) end
  return 'dedup'
end
local uv = ARGV[1] ~= '' and call('SADD', KEYS[3], ARGV[1]) or 0
if uv == 1 then call('EXPIRE', KEYS[3], ARGV[6], 'NX') end
local published = tonumber(date or had[5] or nil)
if not published then
  published = min(tonumber(ARGV[2]) or now, now)
  call('HSET', KEYS[1], 'first', published)
end
local hours = max(0, now - published) / 3600
local inc = (w_pv + w_uv * uv) / (hours + base_hours) ^ gamma

-- The accumulated score survives the counters of an item that was put.
local total, views, renewed = 0, 0, had[4] and had[4] + 0
local live = renewed and clock < renewed + ttl
if live then total, views = tonumber(had[1]), tonumber(had[3]) end
total = total + w_pv + w_uv * uv
local score = tonumber(had[2] or 0) + inc
local v = version_after(had[8], time)
call('HSET', KEYS[1], 'total', format('%.17g', total), 'score', format('%.17g', score), 'views', views + 1,
  'v', v)
if not (live and clock - renewed <= min(86400, ttl / 2)) then
  call('HSET', KEYS[1], 'viewed', clock)
  if not date then
    if had[8] then call('EXPIRE', KEYS[1], ttl, 'GT') else call('EXPIRE', KEYS[1], ttl) end
  end
end
if nets and unlisted then
  call('HSET', KEYS[1], 'nets', '+' .. nets)
  call('EXPIRE', KEYS[1], ttl, 'GT')
end
local reply = format('%d %.17g %.17g %.17g %d %d %s', uv, inc, total, score, published, (had[7] or 0) + 0, v)
if event then call('SET', event, reply .. ' 0', 'EX', 86400) end
return reply .. ' 1'
