-- A stranger's event of an article that nobody vouched for: each network counts once, and the tenth lists it. All of it is one hash, for an hour from the
-- last new network; what track.lua or view.lua would count by session, visitor and fingerprint begins when it is listed.
--
-- KEYS 1 hot:article:{id}  [2 hot:event:{id}:{event} or hot:view:event:{id}:{event}]
-- ARGV 1 the network, 6 bytes  2 client's publish time or ''  3 time of the event or '' (now)  4 1: such an article may begin by it
--      5 counter TTL s  6 dwell ms of a report, '' for a view  7 what a view adds to the sum  8 to the score
-- Returns 'LISTED' for an article that is none such, 'BEGINS' for one that would begin and may not: nothing is written. Else what track.lua or
-- view.lua would, with a 2 for `hidden` while it is not listed, and at the end 1 when it began.
--@include version
local network, most = ARGV[1], 10
local is_report = ARGV[6] ~= ''
local said = KEYS[2] and call('GET', KEYS[2])
if said then return said end
local had = call('HMGET', KEYS[1], 'nets', 'v', 'date', 'hidden', 'first', 'pv', 'uv', 'ms', 'views', 'total', 'score')
local nets = had[1] or ''
if had[3] or had[4] == '1' or (had[2] and nets == '') or nets:sub(1, 1) == '+' then return 'LISTED' end
if not had[2] and ARGV[4] ~= '1' then return 'BEGINS' end
local time = call('TIME')
local clock = time[1] + 0
local now = clock
if ARGV[3] ~= '' then now = min(ARGV[3] + 0, clock) end

local known = false
for at = 1, #nets, 6 do known = known or nets:sub(at, at + 5) == network end
local pv, uv, ms = (had[6] or 0) + 0, (had[7] or 0) + 0, (had[8] or 0) + 0
local total, score, inc = (had[10] or 0) + 0, (had[11] or 0) + 0, 0
local published = had[5] and had[5] + 0 or min(tonumber(ARGV[2]) or now, now)
local v, listed, more = had[2], false, 0
if not known then
  nets, v, more = nets .. network, version_after(v, time), 1
  listed = #nets >= 6 * most
  local ttl = listed and ARGV[5] or '3600'
  call('HSET', KEYS[1], 'nets', listed and '+' .. nets or nets, 'first', published, 'v', v)
  if is_report then
    pv, uv, ms = pv + 1, uv + 1, ms + ARGV[6]
    call('HSET', KEYS[1], 'pv', pv, 'uv', uv, 'ms', ms, 'renewed', clock)
  else
    inc = ARGV[8] + 0
    total, score = total + ARGV[7], score + inc
    call('HSET', KEYS[1], 'total', format('%.17g', total), 'score', format('%.17g', score), 'views', (had[9] or 0) + 1, 'viewed', clock)
  end
  call('EXPIRE', KEYS[1], ttl)
end
local shown, began = listed and 0 or 2, had[2] and 0 or 1
local reply
if is_report then
  reply = format('%d %d %d %d %d %d %s %d', pv, uv, ms, published, published, shown, v, now)
else
  reply = format('%d %.17g %.17g %.17g %d %d %s', more, inc, total, score, published, shown, v)
end
if KEYS[2] then call('SET', KEYS[2], reply .. (is_report and ' 0 0 0 0' or ' 0 0'), 'EX', 86400) end
if is_report then return format('%s %d %d %d %d', reply, more, more, more * ARGV[6], began) end
return format('%s %d %d', reply, more, began)
