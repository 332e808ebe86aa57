-- Places articles in the rank of a model (core/hot/models.h), each unless a later state of it has its place already; of views also in the buckets of
-- mode = current.
--
-- KEYS 1 hot:rank or hot:score  2 hot:placed or hot:placed:views, of the same rank (or both of :next, while it is made anew)  3 hot:published  4 hot:hidden
--      5 hot:rank:meta  6 hot:unplaced  [7 hot:current:index  8… hot:current:{hour}]
-- ARGV 1 the parameters that places follow from, '': Redis adds them up  2 schema  3 'formula', or 'next' for a rank that is being made  4 lowest place
--      5 most members  6 TTL of a bucket s  then for each article: id  place, '' for none  publish time or '' when nothing of it is counted  version
--      with KEYS 7 also total or ''  which key its bucket is  the hour
-- Returns how many got a place. Where ranks are of other parameters none does: those who have these find the ids in hot:unplaced; as they do while
-- ranks with others are being made.
local index = KEYS[7]
local size = index and 7 or 4
local n = (#ARGV - 6) / size
local ids = {}
for i = 1, n do ids[i] = ARGV[size * (i - 1) + 7] end
if ARGV[1] ~= '' then
  local meta = call('HMGET', KEYS[5], 'formula', 'next')
  if not meta[1] and ARGV[3] == 'formula' then
    call('HSET', KEYS[5], 'formula', ARGV[1], 'schema', ARGV[2])
    meta[1] = ARGV[1]
  end
  local of = meta[ARGV[3] == 'next' and 2 or 1]
  if ARGV[3] == 'formula' and (meta[2] or of ~= ARGV[1]) then call('SADD', KEYS[6], unpack(ids)) end
  if of ~= ARGV[1] then return 0 end
end

local now = call('TIME')[1] + 0
local dark, was = call('ZMSCORE', KEYS[4], unpack(ids)), call('HMGET', KEYS[2], unpack(ids))
local add, placed, dates, gone, uncounted = {}, {}, {}, {}, {}
for i, id in ipairs(ids) do
  local at = size * (i - 1) + 7
  local place, date, v, bucket = ARGV[at + 1], ARGV[at + 2], ARGV[at + 3], index and KEYS[ARGV[at + 5] + 0]
  local until_s = tonumber(dark[i] or nil)
  local hidden = until_s and until_s > now and until_s == floor(until_s)  -- not one that is only dated ahead
  if not hidden and not (was[i] and was[i] + 0 >= v + 0) then
    if place == '' then
      gone[#gone + 1] = id
      if date == '' then uncounted[#uncounted + 1] = id end
      if bucket then call('ZREM', bucket, id) end
    else
      add[#add + 1], add[#add + 2] = place, id
      placed[#placed + 1], placed[#placed + 2] = id, v
      dates[#dates + 1], dates[#dates + 2] = date, id
      if bucket and ARGV[at + 4] ~= '' then
        call('ZADD', bucket, ARGV[at + 4], id)
        call('EXPIRE', bucket, ARGV[6])
        call('ZADD', index, 'GT', ARGV[at + 4], ARGV[at + 6])
      end
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
  local most = ARGV[5] + 0
  call('ZADD', KEYS[3], unpack(dates))
  call('ZREMRANGEBYRANK', KEYS[3], 0, -most - 1)
  if ARGV[4] ~= '-inf' then leave(call('ZRANGEBYSCORE', KEYS[1], '-inf', '(' .. ARGV[4], 'LIMIT', 0, 1000)) end
  local beyond = call('ZCARD', KEYS[1]) - most
  while beyond > 0 do
    leave(call('ZRANGE', KEYS[1], 0, min(beyond, 1000) - 1))
    beyond = beyond - 1000
  end
end
return #add / 2
