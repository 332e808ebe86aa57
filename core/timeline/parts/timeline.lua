-- Timelines, outboxes and lists of followers are kept alike: a ZSET of ids by score, unix µs raised to be strictly increasing, below
-- 2^53. Some more members, whose names are no ids, say something of the key itself, as negative scores:
--   ':'  the highest score that was ever given       '::'  the highest that was cut off at the lower end (absent: none)
--   ':::'  of a timeline: unix s when it was last noted that it is read (absent: not yet)      '::::'  the fan-out that it had last
local written = {}
local function mark(key, name) return 0 - (tonumber(call('ZSCORE', key, name)) or 0) end
-- A score as text, made once: a push gives many keys the same few, and Redis would write each anew, with 17 digits.
local function whole(score)
  if not written[score] then written[score] = format('%.0f', score) end
  return written[score]
end
local function clock_us()
  local clock = call('TIME')
  return clock[1] * 1000000 + clock[2]
end

-- Makes room for `count` ids that join. Returns the score of the first, and the mark '::' when some were cut off.
-- The lowest leave beyond `most`, looked for when several ids join, else at each score that `turn` divides. Scores of ids that join alone
-- go through the remainders one by one, so there are never more than most + turn - 1 ids, less than a tenth too many.
local function room(key, last, count, most, now)
  local turn, score = max(1, min(8, floor(most / 10))), 1 - (last or 0)
  if score < now then score = score + math.ceil((now - score) / turn) * turn end
  if most < math.huge and (count > 1 or score % turn == 0) then
    local kept = max(0, most - count)
    local edge = call('ZREVRANGE', key, kept, kept, 'WITHSCORES')[2]
    if edge and edge + 0 > 0 then
      call('ZREMRANGEBYSCORE', key, '(0', edge)
      return score, '-' .. edge
    end
  end
  return score
end

-- Ids, the last becomes the highest; those that are there keep their place. Of more than `most` the last join. Returns how many joined, and
-- whether the key is new (its TTL is the caller's to set). An error of the key's type comes before the first write.
local function push(key, ids, most, now)
  if #ids == 1 then
    local was = call('ZMSCORE', key, ':', ids[1])
    if was[2] then return 0, false end
    local score, cut = room(key, was[1], 1, most, now)
    score = whole(score)
    if cut then
      call('ZADD', key, cut, '::', '-' .. score, ':', score, ids[1])
    else
      call('ZADD', key, '-' .. score, ':', score, ids[1])
    end
    return 1, not was[1]
  end
  local add, placed, last = {}, {}
  for from = 1, #ids, 1000 do  -- unpack() has its limits
    local part = {unpack(ids, from, min(from + 999, #ids))}
    local was = call('ZMSCORE', key, ':', unpack(part))
    last = last or was[1]
    for i, id in ipairs(part) do
      if not was[i + 1] and not placed[id] then
        add[#add + 1], placed[id] = id, true
      end
    end
  end
  if #add == 0 then return 0, false end
  local first = max(1, #add - most + 1)
  local score, cut = room(key, last, #add, most, now)
  local members = cut and {cut, '::'} or {}
  members[#members + 1], members[#members + 2] = first - score - #add, ':'  -- Redis writes numbers with 17 digits
  for i = first, #add do
    members[#members + 1], members[#members + 2] = score + i - first, add[i]
    if #members > 2000 then
      call('ZADD', key, unpack(members))
      members = {}
    end
  end
  if #members > 0 then call('ZADD', key, unpack(members)) end
  return #add - first + 1, not last
end
