-- A view (seed 003): counted once per fingerprint and window; score += (w_pv + w_uv·first_today) / (hours + base)^gamma.
--
-- KEYS 1 hot:dedup:{id}:{fingerprint}  2 hot:uv:{id}:{yyyymmdd}  3 hot:first_ts:{id}  4 item:{id}  5 hot:views:{id}
--      [6 hot:view:event:{id}:{event}, when ARGV 6 is 1]  then hot:score  [hot:added:{visitor}, when ARGV 16 is not 0]
-- ARGV 1 id  2 fingerprint  3 client's publish time or ''  4 days since 1970 of KEYS 2  5 time of the event or '' (now)  6 1: has an event key
--      7 dedup window s  8 UV TTL s  9 counter TTL s  10 w_pv  11 w_uv  12 base hours  13 gamma  14 most members of a rank
--      15 1: unknown items are refused  16 for how many s it is remembered what this adds
-- Returns 'dedup', or 'uv inc total score date fresh restart shown': uv 1 for the day's first view; what was added; the undecayed sum; the
-- accumulated score; the publish time; fresh 1 when that was first seen now; restart 1 when the sum began anew on an old member; shown 0
-- for a hidden item. Numbers as %.17g.
-- Errors, all before the first write: DAY n when Redis' UTC day is n and not ARGV 4; UNKNOWN_ITEM; INVALID.
local id = ARGV[1]
local w_pv, w_uv = tonumber(ARGV[10]), tonumber(ARGV[11])
local base_hours, gamma, ttl = tonumber(ARGV[12]), tonumber(ARGV[13]), tonumber(ARGV[9])
if not (w_pv and w_uv and base_hours and gamma and ttl) then return redis.error_reply('INVALID parameters') end
local event, score_at = nil, 6
if ARGV[6] == '1' then
  event, score_at = KEYS[6], 7
  local said = redis.call('GET', event)
  if said then return said end
end
local clock = tonumber(redis.call('TIME')[1])
local now = tonumber(ARGV[5])
if not now then
  now = clock
  local day = math.floor(clock / 86400)
  if day ~= tonumber(ARGV[4]) then return redis.error_reply(string.format('DAY %d', day)) end
elseif now > clock then
  now = clock
end
local item = redis.call('HMGET', KEYS[4], 'published_at', 'hidden')
local date = tonumber(item[1])
if not date and ARGV[15] == '1' then return redis.error_reply('UNKNOWN_ITEM no such item') end

if ARGV[7] ~= '0' and not redis.call('SET', KEYS[1], 1, 'NX', 'EX', ARGV[7]) then
  if event then redis.call('SET', event, 'dedup', 'EX', 86400) end
  return 'dedup'
end
local uv = redis.call('SADD', KEYS[2], ARGV[2])
if uv == 1 then redis.call('EXPIRE', KEYS[2], ARGV[8], 'NX') end
local fresh = 0
if not date then
  date = tonumber(redis.call('GET', KEYS[3]) or nil)
  if not date then
    date = math.min(tonumber(ARGV[3]) or now, now)
    fresh = 1
    redis.call('SET', KEYS[3], date, 'EX', ttl)
  end
end
local hours = (now - date) / 3600
if hours < 0 then hours = 0 end
local worth = w_pv + w_uv * uv
local inc = worth / (hours + base_hours) ^ gamma

-- The hash survives what leaves hot:score (hidden, trimmed); hot:score survives the hash's TTL.
local had = redis.call('HMGET', KEYS[5], 'total', 'score', 'pv', 'renewed')
local score, member = KEYS[score_at], nil
if not had[2] then member = redis.call('ZSCORE', score, id) end
local total = (tonumber(had[1]) or 0) + worth
local sum = (tonumber(had[2] or member or nil) or 0) + inc
local renewed = tonumber(had[4])
local renew = not renewed or clock - renewed > math.min(86400, ttl / 2)
redis.call('HSET', KEYS[5], 'total', string.format('%.17g', total), 'score', string.format('%.17g', sum),
  'pv', (tonumber(had[3]) or 0) + 1, 'renewed', renew and clock or renewed)
if renew then
  redis.call('EXPIRE', KEYS[5], ttl)
  if fresh == 0 then redis.call('EXPIRE', KEYS[3], ttl) end
end
if ARGV[16] ~= '0' then
  local added = KEYS[#KEYS]
  -- 2^31 for each view, and 1 for each that was a day's first.
  if redis.call('HINCRBY', added, 'v:' .. id, 2147483648 + uv) <= 2147483649 then redis.call('EXPIRE', added, ARGV[16]) end
  redis.call('HINCRBYFLOAT', added, 's:' .. id, string.format('%.17g', inc))
end
local shown = item[2] ~= '1' and 1 or 0
if shown == 1 then
  if redis.call('ZADD', score, sum, id) == 1 then redis.call('ZREMRANGEBYRANK', score, 0, -tonumber(ARGV[14]) - 1) end
end
local reply = string.format('%d %.17g %.17g %.17g %.17g', uv, inc, total, sum, date)
if event then redis.call('SET', event, string.format('%s 0 0 %d', reply, shown), 'EX', 86400) end
return string.format('%s %d %d %d', reply, fresh, member and 1 or 0, shown)
