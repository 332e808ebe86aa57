-- Timelines, outboxes and lists of followers are kept alike: a ZSET of ids by score, unix ms raised to be strictly increasing, below
-- 2^53. Two more members, whose names are no ids, hold what must survive the removal of ids, as negative scores:
--   ':'  the highest score that was ever given       '::'  the highest that was cut off at the lower end (absent: none)
local function mark(key, name) return -(tonumber(redis.call('ZSCORE', key, name)) or 0) end
local function whole(number) return string.format('%.0f', number) end
local function clock_ms()
  local clock = redis.call('TIME')
  return tonumber(clock[1]) * 1000 + math.floor(tonumber(clock[2]) / 1000)
end

-- Ids, the last becomes the highest; those that are there keep their place. At most `most` stay. Returns how many are new, and whether
-- the key is (its TTL is the caller's to set).
local function push(key, ids, most, now)
  local last = mark(key, ':')
  local is_new, pushed = last == 0, 0
  for _, id in ipairs(ids) do
    local score = math.max(last + 1, now)
    if redis.call('ZADD', key, 'NX', whole(score), id) == 1 then last, pushed = score, pushed + 1 end
  end
  if pushed == 0 then return 0, false end
  redis.call('ZADD', key, whole(-last), ':')
  local excess = redis.call('ZCARD', key) - 1 - most
  if excess > 0 and redis.call('ZSCORE', key, '::') then excess = excess - 1 end
  if excess > 0 then
    local edge = redis.call('ZRANGEBYSCORE', key, '(0', '+inf', 'WITHSCORES', 'LIMIT', excess - 1, 1)[2]
    redis.call('ZREMRANGEBYSCORE', key, '(0', edge)
    redis.call('ZADD', key, '-' .. edge, '::')
  end
  return pushed, is_new
end
