-- Timelines, outboxes and lists of followers are kept alike: a ZSET of ids by score, unix ms raised to be strictly increasing, below
-- 2^53. Two more members, whose names are no ids, hold what must survive the removal of ids, as negative scores:
--   ':'  the highest score that was ever given       '::'  the highest that was cut off at the lower end (absent: none)
local function mark(key, name) return 0 - (tonumber(redis.call('ZSCORE', key, name)) or 0) end
local function whole(number) return string.format('%.0f', number) end
local function clock_ms()
  local clock = redis.call('TIME')
  return tonumber(clock[1]) * 1000 + math.floor(tonumber(clock[2]) / 1000)
end

-- Ids, the last becomes the highest; those that are there keep their place. At most `most` stay. Returns how many are new, and whether
-- the key is (its TTL is the caller's to set). An error of the key's type comes before the first write.
local function push(key, ids, most, now)
  local placed, pushed, is_new = {}, 0, false
  for from = 1, #ids, 1000 do  -- unpack() has its limits
    local part = {unpack(ids, from, math.min(from + 999, #ids))}
    local was = redis.call('ZMSCORE', key, ':', unpack(part))
    if from == 1 then is_new = not was[1] end
    local last, add = 0 - (tonumber(was[1]) or 0), {}
    for i, id in ipairs(part) do
      if not was[i + 1] and not placed[id] then
        last, pushed, placed[id] = math.max(last + 1, now), pushed + 1, true
        add[#add + 1] = whole(last)
        add[#add + 1] = id
      end
    end
    if #add > 0 then redis.call('ZADD', key, whole(-last), ':', unpack(add)) end
  end
  if pushed == 0 then return 0, false end
  local excess = redis.call('ZCARD', key) - 1 - most
  if excess > 0 and redis.call('ZSCORE', key, '::') then excess = excess - 1 end
  if excess > 0 then
    local edge = redis.call('ZRANGEBYSCORE', key, '(0', '+inf', 'WITHSCORES', 'LIMIT', excess - 1, 1)[2]
    redis.call('ZREMRANGEBYSCORE', key, '(0', edge)
    redis.call('ZADD', key, '-' .. edge, '::')
  end
  return pushed, is_new
end
