-- The cached list, and at most once per time slice the lock to rebuild it.
--
-- KEYS 1 hot:list…  2 hot:list:meta…  3 hot:list:lock…  4 hot:epoch  5 hot:hidden
-- ARGV 1 slice ms  2 lock ms
-- Returns {state, json, built ms, epoch, due}. state 'fresh': built in this slice; 'build': the caller has the lock, and `built ms` is its token;
-- 'stale': somebody else has it. json is '' when there is none or something was hidden, deleted or re-dated since it was built, or came to its date.
-- due: in how many ms the next item comes to its date, '' for none.
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local slice = tonumber(ARGV[1])
local epoch = redis.call('GET', KEYS[4]) or '0'
local meta = redis.call('HMGET', KEYS[2], 'built_ms', 'epoch')
local json, second = '', math.floor(now / 1000)
local built = tonumber(meta[1]) or 0
if meta[2] == epoch and redis.call('ZCOUNT', KEYS[5], '(' .. math.floor(built / 1000), second) == 0 then
  json = redis.call('GET', KEYS[1]) or ''
end
local next_shown, due = redis.call('ZRANGEBYSCORE', KEYS[5], '(' .. second, '(inf', 'WITHSCORES', 'LIMIT', 0, 1), ''
if next_shown[2] then due = string.format('%.0f', math.ceil(tonumber(next_shown[2])) * 1000 - now) end
if json ~= '' and math.floor(built / slice) == math.floor(now / slice) then
  return {'fresh', json, string.format('%d', built), epoch, due}
end
local token = string.format('%d', now)
if redis.call('SET', KEYS[3], token, 'NX', 'PX', ARGV[2]) then return {'build', json, token, epoch, due} end
return {'stale', json, string.format('%d', built), epoch, due}
