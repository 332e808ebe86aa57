-- Places articles in a rank of engagement, each unless a later state of it has its place already.
--
-- KEYS 1 hot:rank  2 hot:placed (or both of :next, while the rank is made anew)  3 hot:published  4 hot:hidden  5 hot:rank:meta  6 hot:unplaced
-- ARGV 1 the formula of the rank keys  2 its half-life s  3 schema  4 'formula', or 'next' for the rank that is being made  5 lowest rank key
--      6 most members  then for each article: id  rank key or '' for no place  publish time or '' when nothing of it is counted  version
-- Returns how many got a place. Where the rank is of another formula none does: those who have that formula find the ids in hot:unplaced; as they do
-- while a rank with another is being made.
local call = redis.call
local n = (#ARGV - 6) / 4
local ids = {}
for i = 1, n do ids[i] = ARGV[4 * i + 3] end
local meta = call('HMGET', KEYS[5], 'formula', 'next')
if not meta[1] and ARGV[4] == 'formula' then
  call('HSET', KEYS[5], 'formula', ARGV[1], 'half_life', ARGV[2], 'schema', ARGV[3])
  meta[1] = ARGV[1]
end
local of = meta[ARGV[4] == 'next' and 2 or 1]
if ARGV[4] == 'formula' and (meta[2] or of ~= ARGV[1]) then call('SADD', KEYS[6], unpack(ids)) end
if of ~= ARGV[1] then return 0 end

local now = call('TIME')[1] + 0
local dark, was = call('ZMSCORE', KEYS[4], unpack(ids)), call('HMGET', KEYS[2], unpack(ids))
local add, placed, dates, gone, uncounted = {}, {}, {}, {}, {}
for i, id in ipairs(ids) do
  local z, date, v = ARGV[4 * i + 4], ARGV[4 * i + 5], ARGV[4 * i + 6]
  local until_s = tonumber(dark[i] or nil)
  local hidden = until_s and until_s > now and until_s == math.floor(until_s)  -- not one that is only dated ahead
  if not hidden and not (was[i] and was[i] + 0 >= v + 0) then
    if z == '' then
      gone[#gone + 1] = id
      if date == '' then uncounted[#uncounted + 1] = id end
    else
      add[#add + 1], add[#add + 2] = z, id
      placed[#placed + 1], placed[#placed + 2] = id, v
      dates[#dates + 1], dates[#dates + 2] = date, id
    end
  end
end
local function leave(some)
  if #some == 0 then return end
  call('ZREM', KEYS[1], unpack(some))
  call('HDEL', KEYS[2], unpack(some))
end
leave(gone)
if #uncounted > 0 then call('ZREM', KEYS[3], unpack(uncounted)) end
if #add == 0 then return 0 end
call('HSET', KEYS[2], unpack(placed))
-- Only when the rank has grown is it trimmed: members whose score fell under the floor, then the lowest beyond the cap.
if call('ZADD', KEYS[1], unpack(add)) > 0 then
  local max = ARGV[6] + 0
  call('ZADD', KEYS[3], unpack(dates))
  call('ZREMRANGEBYRANK', KEYS[3], 0, -max - 1)
  leave(call('ZRANGEBYSCORE', KEYS[1], '-inf', '(' .. ARGV[5], 'LIMIT', 0, 1000))
  local beyond = call('ZCARD', KEYS[1]) - max
  while beyond > 0 do
    leave(call('ZRANGE', KEYS[1], 0, math.min(beyond, 1000) - 1))
    beyond = beyond - 1000
  end
end
return #add / 2
