-- Common format of timelines, outboxes and follower lists: a ZSET of ids. Scores are unix µs, raised where needed to be strictly increasing, and stay below
-- 2^53. Further members, of one to four U+001E, which no id contains, hold marks of the key itself as negative scores:
--   1  highest score ever given
--   2  highest score that was trimmed at the lower end (absent: none)
--   3  timelines: unix s at which the reader's activity was last recorded (absent: never)
--   4  timelines: number of the last fan-out
local HIGHEST, TRIMMED, FANOUT = '\030', '\030\030', '\030\030\030\030'
local texts = {}
local function mark(key, name) return 0 - (tonumber(call('ZSCORE', key, name)) or 0) end
-- A score as text, cached: a push writes the same few scores to many keys, and Redis would format each again with 17 digits.
local function score_text(score)
  if not texts[score] then texts[score] = format('%.0f', score) end
  return texts[score]
end
local function clock_us()
  local clock = call('TIME')
  return clock[1] * 1000000 + clock[2]
end

-- Removes all but the newest `kept` ids. Returns the new mark TRIMMED if there were more.
local function trim(key, kept)
  local edge = call('ZREVRANGE', key, kept, kept, 'WITHSCORES')[2]
  if edge and edge + 0 > 0 then
    call('ZREMRANGEBYSCORE', key, '(0', edge)
    return '-' .. edge
  end
end

-- Adds ids, the last with the highest score. Ids that are already there keep their position. If there are more than `limit` new ids, only the last are
-- added. Returns how many were added, and whether the key is new (the caller must set its TTL). A wrong type of the key fails before the first write.
local function push(key, ids, limit, now)
  local add, added, last = {}, {}
  for from = 1, #ids, 1000 do  -- unpack() is limited by the Lua stack
    local part = {unpack(ids, from, min(from + 999, #ids))}
    local scores = call('ZMSCORE', key, HIGHEST, unpack(part))
    last = last or scores[1]
    for i, id in ipairs(part) do
      if not scores[i + 1] and not added[id] then
        add[#add + 1], added[id] = id, true
      end
    end
  end
  if #add == 0 then return 0, false end
  local first = max(1, #add - limit + 1)
  local score = max(now, 1 - (last or 0))
  local trimmed = limit < math.huge and trim(key, max(0, limit - #add))
  local members = trimmed and {trimmed, TRIMMED} or {}
  members[#members + 1], members[#members + 2] = first - score - #add, HIGHEST  -- Redis formats numbers with 17 digits
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
