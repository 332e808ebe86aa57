-- Timelines, outboxes and lists of followers are kept alike: a ZSET of ids by score, unix µs raised to be strictly increasing, below
-- 2^53. Some more members, whose names are no ids, say something of the key itself, as negative scores:
--   ':'  the highest score that was ever given       '::'  the highest that was cut off at the lower end (absent: none)
--   ':::'  of a timeline: unix s when it was last noted that it is read (absent: not yet)
local function mark(key, name) return 0 - (tonumber(redis.call('ZSCORE', key, name)) or 0) end
local function whole(number) return string.format('%.0f', number) end
local function clock_us()
  local clock = redis.call('TIME')
  return clock[1] * 1000000 + clock[2]
end

-- Ids, the last becomes the highest; those that are there keep their place. Of more than `most` the last join. Returns how many joined, and
-- whether the key is new (its TTL is the caller's to set). An error of the key's type comes before the first write.
-- The lowest leave beyond `most`, looked for when several ids join, else at each score that `turn` divides. Scores of ids that join alone
-- go through the remainders one by one, so there are never more than most + turn - 1 ids, less than a tenth too many.
local function push(key, ids, most, now)
  local add, placed, last = {}, {}
  for from = 1, #ids, 1000 do  -- unpack() has its limits
    local part = {unpack(ids, from, math.min(from + 999, #ids))}
    local was = redis.call('ZMSCORE', key, ':', unpack(part))
    last = last or was[1]
    for i, id in ipairs(part) do
      if not was[i + 1] and not placed[id] then
        add[#add + 1], placed[id] = id, true
      end
    end
  end
  if #add == 0 then return 0, false end
  local is_new, first, turn = not last, math.max(1, #add - most + 1), math.max(1, math.min(8, math.floor(most / 10)))
  last = 0 - (last or 0)
  local score = last + 1
  if score < now then score = score + math.ceil((now - score) / turn) * turn end
  local highest, members = score + #add - first, {}
  if most < math.huge and (#add > 1 or score % turn == 0) then
    local edge = redis.call('ZREVRANGE', key, math.max(0, most - #add), math.max(0, most - #add), 'WITHSCORES')[2]
    if edge and tonumber(edge) > 0 then
      redis.call('ZREMRANGEBYSCORE', key, '(0', edge)
      members = {'-' .. edge, '::'}
    end
  end
  members[#members + 1], members[#members + 2] = -highest, ':'  -- Redis writes numbers with 17 digits
  for i = first, #add do
    members[#members + 1], members[#members + 2] = score + i - first, add[i]
    if #members > 2000 then
      redis.call('ZADD', key, unpack(members))
      members = {}
    end
  end
  if #members > 0 then redis.call('ZADD', key, unpack(members)) end
  return #add - first + 1, is_new
end
