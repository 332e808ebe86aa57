-- A stranger's event of an article that nobody vouched for: each network counts once, and the tenth lists it. All of it is one hash, for an hour from the
-- last new network; what track.lua or view.lua would count by session, visitor and fingerprint begins when it is listed.
--
-- KEYS 1 hot:article:{id}  2 hot:unlisted  [3 hot:event:{id}:{event} or hot:view:event:{id}:{event}]
-- ARGV 1 id  2 the network, 6 bytes  3 client's publish time or ''  4 time of the event or '' (now)  5 1: such an article may begin by it  6 most such articles
--      7 counter TTL s  8 dwell ms of a report, '' for a view  9 what a view adds to the sum  10 to the score
-- Returns 'LISTED' for an article that is none such (nothing is written). Else what track.lua or view.lua would, with a 2 for `hidden` while it is not
-- listed, and at the end 1 when it began.
-- Error, before the first write: TOO_MANY_UNKNOWN.
local call, id, network, most = redis.call, ARGV[1], ARGV[2], 10
local is_report = ARGV[8] ~= ''
local said = KEYS[3] and call('GET', KEYS[3])
if said then return said end
local had = call('HMGET', KEYS[1], 'nets', 'v', 'date', 'hidden', 'first', 'pv', 'uv', 'ms', 'views', 'total', 'score')
local nets = had[1] or ''
if had[3] or had[4] == '1' or (had[2] and nets == '') or nets:sub(1, 1) == '+' then return 'LISTED' end
local time = call('TIME')
local clock = time[1] + 0
local now = clock
if ARGV[4] ~= '' then now = math.min(ARGV[4] + 0, clock) end
if not had[2] then
  if ARGV[5] ~= '1' then return redis.error_reply('TOO_MANY_UNKNOWN of this network') end
  -- The ends of those that are over go a few at a time.
  local over = call('ZRANGEBYSCORE', KEYS[2], '-inf', clock, 'LIMIT', 0, 100)
  if #over > 0 then call('ZREM', KEYS[2], unpack(over)) end
  if call('ZCARD', KEYS[2]) >= ARGV[6] + 0 then return redis.error_reply('TOO_MANY_UNKNOWN of all') end
end

local known = false
for at = 1, #nets, 6 do known = known or nets:sub(at, at + 5) == network end
local pv, uv, ms = (had[6] or 0) + 0, (had[7] or 0) + 0, (had[8] or 0) + 0
local total, score, inc = (had[10] or 0) + 0, (had[11] or 0) + 0, 0
local published = had[5] and had[5] + 0 or math.min(tonumber(ARGV[3]) or now, now)
local v, listed, more = (had[2] or 0) + 0, false, 0
if not known then
  nets, v, more = nets .. network, math.max(v + 1, time[1] * 1000000 + time[2]), 1
  listed = #nets >= 6 * most
  local ttl = listed and ARGV[7] or '3600'
  call('HSET', KEYS[1], 'nets', listed and '+' .. nets or nets, 'first', published, 'v', string.format('%d', v))
  if is_report then
    pv, uv, ms = pv + 1, uv + 1, ms + ARGV[8]
    call('HSET', KEYS[1], 'pv', pv, 'uv', uv, 'ms', ms, 'renewed', clock)
  else
    inc = ARGV[10] + 0
    total, score = total + ARGV[9], score + inc
    call('HSET', KEYS[1], 'total', string.format('%.17g', total), 'score', string.format('%.17g', score), 'views', (had[9] or 0) + 1, 'viewed', clock)
  end
  call('EXPIRE', KEYS[1], ttl)
  if listed then call('ZREM', KEYS[2], id) else call('ZADD', KEYS[2], clock + 3600, id) end
end
local shown, began = listed and 0 or 2, had[2] and 0 or 1
local reply
if is_report then
  reply = string.format('%d %d %d %d %d %d %d %d', pv, uv, ms, published, published, shown, v, now)
else
  reply = string.format('%d %.17g %.17g %.17g %d %d %d', more, inc, total, score, published, shown, v)
end
if KEYS[3] then call('SET', KEYS[3], reply .. (is_report and ' 0 0 0 0' or ' 0 0'), 'EX', 86400) end
if is_report then return string.format('%s %d %d %d %d', reply, more, more, more * ARGV[8], began) end
return string.format('%s %d %d', reply, more, began)
