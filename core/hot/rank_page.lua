-- A page of a rank, highest first, without what is dated ahead, filtered by publish time and tag. Walks down the rank; where the filter keeps few (≤ 1,000 in the
-- tag or the window) it lists those instead, so that a rare tag does not walk a million members.
--
-- KEYS 1 hot:rank or hot:score  2 hot:published  [3 tag:{tag}]
-- ARGV 1 offset  2 count  3 published within so many seconds, 0: all  4 most members read a call
-- Returns {next offset or -1, id, score, id, score, …}; scores as %.17g.
local offset, count, window, most = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local rank, published, tag = KEYS[1], KEYS[2], KEYS[3]
local few = 1000
local now = tonumber(redis.call('TIME')[1])
local from
if window > 0 then from = now - window end
local some_ahead = redis.call('ZCOUNT', published, '(' .. now, '+inf') > 0

local function dated(ids)
  if not (from or some_ahead) or #ids == 0 then return nil end
  return redis.call('ZMSCORE', published, unpack(ids))
end
local function tagged(ids)
  if not tag or #ids == 0 then return nil end
  return redis.call('SMISMEMBER', tag, unpack(ids))
end
local function kept(i, dates, tags)
  if tags and tags[i] ~= 1 then return false end
  local date = dates and tonumber(dates[i] or nil)
  if not date then return not from end
  return date <= now and date >= (from or date)
end

local candidates
if tag and redis.call('SCARD', tag) <= few then
  candidates = redis.call('SMEMBERS', tag)
elseif from and redis.call('ZCOUNT', published, from, now) <= few then
  candidates = redis.call('ZRANGEBYSCORE', published, from, now)
end
local out = {'-1'}
if candidates then
  if #candidates == 0 then return out end
  local dates, tags = dated(candidates), tagged(candidates)
  local scores = redis.call('ZMSCORE', rank, unpack(candidates))
  local all = {}
  for i, id in ipairs(candidates) do
    if scores[i] and kept(i, dates, tags) then all[#all + 1] = {tonumber(scores[i]), id, scores[i]} end
  end
  table.sort(all, function(a, b)
    if a[1] ~= b[1] then return a[1] > b[1] end
    return a[2] > b[2]
  end)
  for i = offset + 1, math.min(offset + count, #all) do
    out[#out + 1] = all[i][2]
    out[#out + 1] = all[i][3]
  end
  if offset + count < #all then out[1] = tostring(offset + count) end
  return out
end
local at, found, last = offset, 0, offset + most
while found < count and at < last do
  local chunk = math.min(last - at, (from or tag or some_ahead) and math.max(count, 200) or count)
  local page = redis.call('ZREVRANGE', rank, at, at + chunk - 1, 'WITHSCORES')
  local ids = {}
  for i = 1, #page, 2 do ids[#ids + 1] = page[i] end
  local dates, tags = dated(ids), tagged(ids)
  for i, id in ipairs(ids) do
    at = at + 1
    if kept(i, dates, tags) then
      found = found + 1
      out[#out + 1] = id
      out[#out + 1] = page[2 * i]
      if found == count then break end
    end
  end
  if #ids < chunk and found < count then return out end
end
out[1] = tostring(at)
return out
