-- A report of reading, counted: PV once per session and window, UV, the session's greatest dwell.
--
-- KEYS 1 hot:article:{id}  2 hot:uv:hll:{id}  3 hot:session:{id}:{session}  [4 hot:event:{id}:{event}]
-- ARGV 1 visitor, '': none more  2 dwell ms  3 client's publish time or ''  4 time of the event or '' (now)  5 session window s, 0: every report counts
--      6 counter TTL s  7 of unknown articles 0: taken, 1: refused, 2: taken when somebody vouched for them
--      8 '' or the most ms that a session's first report can claim
-- Returns 'pv uv ms first published hidden v now' and what this added, 'pv uv ms': all whole numbers; first is the publish time that decay counts
-- from, now the time this counted with. A repeated event id answers as before, and added nothing: its key holds that.
-- Errors: UNKNOWN_ITEM, UNLISTED (unlisted.lua counts it). Both before the first write: Lua has no rollback.
--
-- A session's key holds 'dwell begin': its greatest dwell, and the ms at which it would have begun if its first report told the truth. A client whose
-- word needs a proof (ARGV 8) can claim that much at first, later no more than the time since `begin` and 5 s: reports travel at different speeds.
--
-- Each register that changes adds to `uv` the 1/P visitors that one stands for: P = sum of 2^-k exp(-x 2^(1-k)), x = uv / 16384, and 1/P is
-- 1.3863 x + exp(-0.77 x) within 2.1 per cent; in whole visitors, since Redis writes a fraction with 17 digits. PFCOUNT is asked above 100 only,
-- after each half a per cent; `counted` is what it last said.
-- This is the hottest script: a command costs 1 to 2 µs, a number 0.1.
--@include version
local dwell, window, ttl, event = ARGV[2] + 0, ARGV[5], ARGV[6] + 0, KEYS[4]
if event then
  local said = call('GET', event)
  if said then return said end
end
local time = call('TIME')
local clock = time[1] + 0
local now = clock
if ARGV[4] ~= '' then now = min(ARGV[4] + 0, clock) end
local had = call('HMGET', KEYS[1], 'pv', 'uv', 'counted', 'ms', 'renewed', 'first', 'date', 'hidden', 'early', 'v', 'uv_correction', 'nets')
local date = had[7] and had[7] + 0
if not date and ARGV[7] == '1' then return redis.error_reply('UNKNOWN_ITEM no such item') end
local nets = had[12]
if ARGV[7] == '2' and not date and had[8] ~= '1' and (not had[10] or nets and nets:sub(1, 1) ~= '+') then
  return redis.error_reply('UNLISTED nobody vouched for it')
end

-- From here on everything is valid. An item's hash outlives its counters, which end with their TTL all the same.
local pv, uv, counted, ms, correction, live = 0, 0, 100, 0, 0, false
if had[1] then
  live = clock < (had[5] or 0) + ttl
  if live then
    pv, uv, counted, ms, correction = had[1] + 0, had[2] + 0, (had[3] or counted) + 0, had[4] + 0, (had[11] or 0) + 0
  else
    call('DEL', KEYS[2])
    call('HDEL', KEYS[1], 'uv_correction', 'shown')
  end
end
if nets then  -- it is listed from now on: each network was a visitor
  if nets:sub(1, 1) == '+' then nets = nets:sub(2) end
  for at = 1, 6 * uv, 6 do call('PFADD', KEYS[2], nets:sub(at, at + 5)) end
  call('HDEL', KEYS[1], 'nets')
  call('EXPIRE', KEYS[2], ttl)
  if not date then call('EXPIRE', KEYS[1], ttl, 'GT') end
end

-- The session's key keeps its greatest dwell; each report renews its window.
local counts, more, most = true, dwell, ARGV[8] ~= '' and ARGV[8] + 0
if most and dwell > most then more = most end
if window ~= '0' then
  local at_ms = now * 1000
  local before = call('SET', KEYS[3], format('%d %d', more, at_ms - more), 'NX', 'GET', 'EX', window)
  if before then
    local greatest, begin = before:match('^(%d+) (%d+)$')
    greatest, begin = greatest + 0, begin + 0
    if ARGV[4] ~= '' then begin = min(begin, at_ms - more) end  -- it may have been the first, and waited in a spool
    if most then dwell = max(0, min(dwell, at_ms - begin + 5000)) end
    local greater = max(dwell, greatest)
    call('SET', KEYS[3], greater .. ' ' .. begin, 'EX', window)
    more = dwell
    if live then counts, more = false, greater - greatest end  -- else the counters have gone meanwhile
  end
end
ms = ms + more
if counts then pv = pv + 1 end
local uv_before = uv
local changed = ARGV[1] ~= '' and call('PFADD', KEYS[2], ARGV[1]) == 1
if changed then
  if uv >= 1.005 * counted then
    uv = call('PFCOUNT', KEYS[2])
    counted = uv
  else
    local x = uv / 16384
    uv = uv + floor(1.3863 * x + math.exp(-0.77 * x) + 0.5)
  end
end

-- The item store's date wins; the client's counts at first sight of an unknown item only. A date ahead of now counts as now; `early` remembers
-- that now, so that the rank key can be told apart from the date.
local published = date or had[6] and had[6] + 0
local begins = not published
if begins then published = min(tonumber(ARGV[3]) or now, now) end
local ahead = published > clock
local first = ahead and clock or published
local v = had[10] or 0
if counts or changed or more > 0 or ahead then
  v = version_after(v, time)
  if had[3] or counted ~= 100 then
    call('HSET', KEYS[1], 'pv', pv, 'uv', uv, 'counted', counted, 'ms', ms, 'v', v)
  else
    call('HSET', KEYS[1], 'pv', pv, 'uv', uv, 'ms', ms, 'v', v)
  end
end
if ahead then
  call('HSET', KEYS[1], 'early', first)
elseif had[9] then
  call('HDEL', KEYS[1], 'early')
end
if begins then call('HSET', KEYS[1], 'first', first) end
-- Once a day is enough. The hash of an item that was put has no TTL; that of another lives as long as any of its counters.
if counts and not (live and clock - had[5] <= min(86400, ttl / 2)) then
  call('HSET', KEYS[1], 'renewed', clock)
  call('EXPIRE', KEYS[2], ttl)
  if not date then
    if had[10] then call('EXPIRE', KEYS[1], ttl, 'GT') else call('EXPIRE', KEYS[1], ttl) end
  end
elseif changed and uv_before == 0 then
  call('EXPIRE', KEYS[2], ttl)  -- nobody before was to count as a visitor
end

local reply = format('%d %d %d %d %d %d %s %d %d %d %d', pv, max(0, uv - correction), ms, first, published, had[8] or 0, v, now,
  counts and 1 or 0, uv - uv_before, more)
if event then call('SET', event, reply:gsub('%S+ %S+ %S+$', '0 0 0'), 'EX', 86400) end
return reply
