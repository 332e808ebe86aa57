-- Places articles in hot:score and in the buckets of mode = current, each unless a later state of it has its place already.
--
-- KEYS 1 hot:score  2 hot:placed:views  3 hot:published  4 hot:hidden  5 hot:current:index  6… hot:current:{hour}
-- ARGV 1 most members  2 TTL of a bucket s  then for each article: id  accumulated score or '' for no place  total or ''  publish time, '' when nothing of
--      it is counted  version  which key its bucket is  the hour
-- Returns how many got a place.
local call = redis.call
local max, n = -ARGV[1] - 1, (#ARGV - 2) / 7
local ids = {}
for i = 1, n do ids[i] = ARGV[7 * i - 4] end
local now = call('TIME')[1] + 0
local dark, was = call('ZMSCORE', KEYS[4], unpack(ids)), call('HMGET', KEYS[2], unpack(ids))
local add, placed, dates = {}, {}, {}
for i, id in ipairs(ids) do
  local at = 7 * i - 4
  local score, total, date, v, bucket, hour = ARGV[at + 1], ARGV[at + 2], ARGV[at + 3], ARGV[at + 4], KEYS[ARGV[at + 5] + 0], ARGV[at + 6]
  local until_s = tonumber(dark[i] or nil)
  local hidden = until_s and until_s > now and until_s == math.floor(until_s)  -- not one that is only dated ahead
  if not hidden and not (was[i] and was[i] + 0 >= v + 0) then
    if score == '' then
      call('ZREM', KEYS[1], id)
      call('ZREM', bucket, id)
      call('HDEL', KEYS[2], id)
      if date == '' then call('ZREM', KEYS[3], id) end
    else
      add[#add + 1], add[#add + 2] = score, id
      placed[#placed + 1], placed[#placed + 2] = id, v
      dates[#dates + 1], dates[#dates + 2] = date, id
      if total ~= '' then
        call('ZADD', bucket, total, id)
        call('EXPIRE', bucket, ARGV[2])
        call('ZADD', KEYS[5], 'GT', total, hour)
      end
    end
  end
end
if #add == 0 then return 0 end
call('HSET', KEYS[2], unpack(placed))
if call('ZADD', KEYS[1], unpack(add)) > 0 then
  call('ZADD', KEYS[3], unpack(dates))
  call('ZREMRANGEBYRANK', KEYS[3], 0, max)
  local beyond = call('ZCARD', KEYS[1]) + max + 1
  while beyond > 0 do
    local lowest = call('ZRANGE', KEYS[1], 0, math.min(beyond, 1000) - 1)
    call('ZREM', KEYS[1], unpack(lowest))
    call('HDEL', KEYS[2], unpack(lowest))
    beyond = beyond - 1000
  end
end
return #add / 2
