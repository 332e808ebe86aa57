-- Freshet's earlier script for a report of reading: counts a page view once per session window, visitors and the session's
-- longest dwell, and updates the rank.
--
-- KEYS 1 hot:pv:{id}  2 hot:uv:hll:{id}  3 hot:dwell:sum:{id}  4 hot:dwell:cnt:{id}  5 hot:first_ts:{id}  6 item:{id}
--      7 hot:session:{id}:{session}  [8 hot:event:{id}:{event}, when ARGV 6 is 1]
--      then hot:rank  hot:published  [hot:added:{visitor}, when ARGV 15 is not 0]
-- ARGV 1 id  2 visitor  3 dwell ms  4 client's publish time or ''  5 time of the event or '' (now)  6 1: has an event key
--      7 session window s, 0: every report counts  8 counter TTL s  9 the formula's parameters  10 dwell cap ms
--      11 log2 of the minimum score  12 maximum members of a rank  13 1: unknown items are refused
--      14 '' or the maximum dwell ms of a session's first report  15 TTL s of contributions
-- Returns 'pv uv mean score', the latter two as %.17g.
-- Errors: UNKNOWN_ITEM, INVALID, always before the first write, since Lua has no rollback.
--
-- A session's key has 'dwell begin': its longest dwell, and the start of the session in ms according to its first report. If a dwell
-- time is untrusted, the first report may claim ARGV 14, later ones the time since `begin` plus 5 s, as latencies of reports differ.
--
-- This is the most frequent script. Optimizations (measured, of 14 µs): numbers are returned to Redis as the text that was
-- received, since Redis formats a Lua number with %.17g (0.2 µs each); `+ 0` takes half the time of tonumber and raises an
-- error if its operand is not a number.
local call, format = redis.call, string.format
local id, window, formula = ARGV[1], ARGV[7], ARGV[9]
-- Expects: formula (params_fingerprint() of core/hot/rank_updater.h). Sets its parameters as numbers; raises an error if one is
-- not a number.
local w_pv, w_uv, w_dwell, m, prior, half = formula:match('^(%S+) (%S+) (%S+) (%S+) (%S+) (%S+)$')
w_pv, w_uv, w_dwell, m, prior, half = w_pv + 0, w_uv + 0, w_dwell + 0, m + 0, prior + 0, half + 0
local dwell = ARGV[3]:find('^%d+$') and ARGV[3] + 0
if not (dwell and dwell <= ARGV[10] + 0) then
  return redis.error_reply('INVALID dwell is not an integer within 0 and the cap')
end
if not (half > 0 and window + 0 >= 0 and ARGV[8] + 0 > 0) then return redis.error_reply('INVALID parameters') end
local event, at = nil, 8
if ARGV[6] == '1' then
  event, at = KEYS[8], 9
  local said = call('GET', event)
  if said then return said end
end
local clock = call('TIME')[1] + 0
local now = clock
if ARGV[5] ~= '' then now = math.min(ARGV[5] + 0, clock) end
local item = call('HMGET', KEYS[6], 'published_at', 'hidden', 'early', 'renewed', 'first', 'uv_less')
local date = tonumber(item[1])
if not date and ARGV[13] == '1' then return redis.error_reply('UNKNOWN_ITEM no such item') end

-- The input is valid. The session's key keeps its longest dwell; each report renews its window.
local counts, more, most = true, 0, ARGV[14] ~= '' and ARGV[14] + 0
local claim, text = dwell, ARGV[3]
if most and dwell > most then claim, text = most, ARGV[14] end
if window == '0' then
else
  local at_ms = now * 1000
  local before = call('SET', KEYS[7], text .. ' ' .. at_ms - claim, 'NX', 'GET', 'EX', window)
  if before then
    counts = false
    local greatest, begin = before:match('^(%d+) ?(%d*)')
    greatest = greatest + 0
    begin = tonumber(begin) or at_ms - greatest
    if ARGV[5] ~= '' then begin = math.min(begin, at_ms - claim) end  -- it may be the session's first report, delayed in a spool
    if most then dwell = math.max(0, math.min(dwell, at_ms - begin + 5000)) end
    more = math.max(0, dwell - greatest)
    call('SET', KEYS[7], greatest + more .. ' ' .. begin, 'EX', window)
  end
end
local pv, sum, cnt
if not counts then
  local had = call('MGET', KEYS[1], KEYS[3], KEYS[4])
  pv, sum, cnt = tonumber(had[1]), tonumber(had[2]), tonumber(had[3])
  if not (pv and sum and cnt) then
    counts, text = true, dwell  -- the counters have expired
  elseif more > 0 then
    sum = call('INCRBY', KEYS[3], more)
  end
end
if counts then
  pv = call('INCR', KEYS[1])
  sum = call('INCRBY', KEYS[3], text)
  cnt = call('INCR', KEYS[4])
end
local uv = call('PFCOUNT', KEYS[2])
local uv_before = uv
if call('PFADD', KEYS[2], ARGV[2]) == 1 then uv = call('PFCOUNT', KEYS[2]) end
if ARGV[15] ~= '0' then
-- Records this report's contribution in hot:added:{visitor}: one field per item, with 2^42 per page view and 1 per ms. A
-- visitor's contribution to UV is the change of the estimate. It is usually 1, at the first page view. Any other change is
-- stored in a separate field: the estimate of thousands of visitors is inexact, and in a shared session the page view may be
-- another visitor's. New fields renew the TTL.
-- Expects: call counts text more uv uv_before id. An overflow (two million page views of an item) is not recorded.
local added, usual, new = KEYS[#KEYS], 0, false
if counts then
  local all = redis.pcall('HINCRBY', added, 't:' .. id, 4398046511104 + text)
  if type(all) == 'number' and all < 2 * 4398046511104 then
    usual, new = 1, true
  end
elseif more > 0 then
  new = redis.pcall('HINCRBY', added, 't:' .. id, more) == more
end
local rest = uv - uv_before - usual
if rest ~= 0 and call('HINCRBY', added, 'u:' .. id, rest) == rest then new = true end
if new then call('EXPIRE', added, ARGV[15]) end
end
-- Reverted visitors (purge_item.lua) stay in the HyperLogLog until it expires.
if item[6] and pv > 1 then uv = math.max(0, uv - item[6]) end

-- The item store's date has precedence. The client's is used only for the first report of an unknown item. A future date counts as now;
-- `early` stores that time, so that the rank key is known although it differs from the date.
local first = date
if date then
  if date > now then
    first = now
    call('HSET', KEYS[6], 'early', now)
  elseif item[3] then
    call('HDEL', KEYS[6], 'early')
  end
elseif item[5] then
  first = item[5] + 0
  date = first
else
  first = tonumber(call('GET', KEYS[5]) or nil)
  if not first then
    first = math.min(tonumber(ARGV[4]) or now, now)
    call('SET', KEYS[5], first, 'EX', ARGV[8])
  end
  date = first
end
-- Renewing five TTLs with every report would double the work, so it is done once a day. The item's hash, which is read anyway, has the
-- time of the last renewal and, for an unknown item, the value of hot:first_ts (its TTL is then that of the counters).
if counts and (pv == 1 or not item[4] or clock - item[4] > math.min(86400, ARGV[8] / 2)) then
  call('HSET', KEYS[6], 'renewed', clock)
  if item[6] and pv == 1 then call('HDEL', KEYS[6], 'uv_less') end
  if not item[1] then
    call('HSET', KEYS[6], 'first', first)
    call('EXPIRE', KEYS[6], ARGV[8])
  end
  for i = 1, 5 do call('EXPIRE', KEYS[i], ARGV[8]) end
end

-- Expects: pv uv sum cnt first, and formula.lua before it. Sets: base, z (nil if base has no logarithm).
-- base = w_pv·pv + w_uv·uv + w_dwell·(sum + m·prior)/(cnt + m);  z = log2(base) + first/half   (core/hot/engagement.h)
local mean = 0
if cnt + m > 0 then mean = (sum + m * prior) / (cnt + m) end
local base = w_pv * pv + w_uv * uv + w_dwell * mean
local z
if base > 0 and base < math.huge then z = math.log(base) / 0.69314718055994530942 + first / half end
local age = now - first
if age < 0 then age = 0 end
local reply = format('%d %d %.17g %.17g', pv, uv, cnt > 0 and sum / cnt or 0, base * 2 ^ (-age / half))
local rank, published = KEYS[at], KEYS[at + 1]
if item[2] ~= '1' and z then
  local floor, max = tonumber(ARGV[11]), tonumber(ARGV[12])
-- Expects: id z date clock half floor max rank published. Writes the member. Trims the set only if it has grown: first members with a
-- score below the minimum (`floor` is its log2), then the lowest ones beyond `max`. So the cap always holds, and most calls skip this.
if redis.call('ZADD', rank, z, id) == 1 then
  redis.call('ZADD', published, date, id)
  redis.call('ZREMRANGEBYSCORE', rank, '-inf', '(' .. string.format('%.17g', floor + clock / half))
  redis.call('ZREMRANGEBYRANK', rank, 0, -max - 1)
  redis.call('ZREMRANGEBYRANK', published, 0, -max - 1)
end
end
if event then call('SET', event, reply, 'EX', 86400) end
return reply
