-- A report of reading (seed 001): PV once per session and window, UV, the session's greatest dwell, the rank.
--
-- KEYS 1 hot:pv:{id}  2 hot:uv:hll:{id}  3 hot:dwell:sum:{id}  4 hot:dwell:cnt:{id}  5 hot:first_ts:{id}  6 item:{id}
--      7 hot:session:{id}:{session}  [8 hot:event:{id}:{event}, when ARGV 6 is 1]
--      then, unless keys carry hash tags: hot:rank  hot:published
-- ARGV 1 id  2 visitor  3 dwell ms  4 client's publish time or ''  5 time of the event or '' (now)  6 1: has an event key  7 session window s, 0: every
--      report counts  8 counter TTL s  9 w_pv  10 w_uv  11 w_dwell  12 m of the dwell prior  13 prior ms  14 half-life s  15 dwell cap ms
--      16 log2 of the floor  17 most members of a rank  18 1: unknown items are refused
-- Returns 'pv uv mean score' as %.17g; with hash tags ' z date' follows, for rank_put.lua ('-' when it has no place).
-- Errors: UNKNOWN_ITEM, INVALID. Both before the first write: Lua has no rollback.
local id, dwell, window, half = ARGV[1], tonumber(ARGV[3]), tonumber(ARGV[7]), tonumber(ARGV[14])
local w_pv, w_uv, w_dwell = tonumber(ARGV[9]), tonumber(ARGV[10]), tonumber(ARGV[11])
local m, prior = tonumber(ARGV[12]), tonumber(ARGV[13])
if not (dwell and dwell >= 0 and dwell <= tonumber(ARGV[15]) and dwell % 1 == 0) then
  return redis.error_reply('INVALID dwell is not an integer within 0 and the cap')
end
if not (window and half and half > 0 and w_pv and w_uv and w_dwell and m and prior) then
  return redis.error_reply('INVALID parameters')
end
local event, at = nil, 8
if ARGV[6] == '1' then
  event, at = KEYS[8], 9
  local said = redis.call('GET', event)
  if said then return said end
end
local clock = tonumber(redis.call('TIME')[1])
local now = tonumber(ARGV[5]) or clock
if now > clock then now = clock end
local item = redis.call('HMGET', KEYS[6], 'published_at', 'hidden', 'early')
local date = tonumber(item[1])
if not date and ARGV[18] == '1' then return redis.error_reply('UNKNOWN_ITEM no such item') end

-- From here on everything is valid. The session's key keeps its greatest dwell; each report renews its window.
local counts, more = true, dwell
if window > 0 then
  local before = tonumber(redis.call('SET', KEYS[7], dwell, 'EX', window, 'GET') or nil)
  if before then
    counts, more = false, dwell - before
    if more < 0 then
      redis.call('SET', KEYS[7], before, 'EX', window)
      more = 0
    end
  end
end
local pv, sum, cnt
if not counts then
  local had = redis.call('MGET', KEYS[1], KEYS[3], KEYS[4])
  pv, sum, cnt = tonumber(had[1]), tonumber(had[2]), tonumber(had[3])
  if not (pv and sum and cnt) then
    counts, more = true, dwell  -- the counters have gone meanwhile
  elseif more > 0 then
    sum = redis.call('INCRBY', KEYS[3], more)
  end
end
if counts then
  pv = redis.call('INCR', KEYS[1])
  sum = redis.call('INCRBY', KEYS[3], more)
  cnt = redis.call('INCR', KEYS[4])
end
redis.call('PFADD', KEYS[2], ARGV[2])
local uv = redis.call('PFCOUNT', KEYS[2])

-- The item store's date wins; the client's counts at first sight of an unknown item only. A date ahead of now counts as now; `early` remembers
-- that now, so that the rank key can be told apart from the date.
local first = date
if date then
  if date > now then
    first = now
    redis.call('HSET', KEYS[6], 'early', now)
  elseif item[3] then
    redis.call('HDEL', KEYS[6], 'early')
  end
else
  first = tonumber(redis.call('GET', KEYS[5]) or nil)
  if not first then
    first = math.min(tonumber(ARGV[4]) or now, now)
    redis.call('SET', KEYS[5], first, 'EX', ARGV[8])
  end
  date = first
end
-- Renewing five TTLs at every report would double the work: once a day is enough.
if counts then
  local ttl = tonumber(ARGV[8])
  if pv == 1 or redis.call('TTL', KEYS[1]) < ttl - math.min(86400, ttl / 2) then
    for i = 1, 5 do redis.call('EXPIRE', KEYS[i], ttl) end
  end
end

--@include engagement_key
local age = now - first
if age < 0 then age = 0 end
local reply = string.format('%.17g %.17g %.17g %.17g', pv, uv, cnt > 0 and sum / cnt or 0, base * 2 ^ (-age / half))
local rank, published = KEYS[at], KEYS[at + 1]
local shown = item[2] ~= '1' and z
if not rank then
  reply = reply .. (shown and string.format(' %.17g %.17g', z, date) or ' - -')
elseif shown then
  local floor, max = tonumber(ARGV[16]), tonumber(ARGV[17])
--@include rank_put
end
if event then redis.call('SET', event, reply, 'EX', 86400) end
return reply
