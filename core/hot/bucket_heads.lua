-- The members with the highest totals of some buckets of mode = current.
--
-- KEYS 1 hot:current:index  2 hot:published  3… hot:current:{hour}
-- ARGV 1 offset  2 count  3… the hour of each bucket
-- Returns {id, total, publish time, …}. On the way it drops members that the item store has re-dated since, and what the index
-- says too high of a bucket.
local offset, count = tonumber(ARGV[1]), tonumber(ARGV[2])
local out = {}
for k = 3, #KEYS do
  local hour, clean = tonumber(ARGV[k]), false
  local head, dates
  while not clean do
    clean = true
    head = redis.call('ZREVRANGE', KEYS[k], offset, offset + count - 1, 'WITHSCORES')
    local ids = {}
    for i = 1, #head, 2 do ids[#ids + 1] = head[i] end
    dates = #ids > 0 and redis.call('ZMSCORE', KEYS[2], unpack(ids)) or {}
    for i, id in ipairs(ids) do
      local date = tonumber(dates[i] or nil)
      if not date then
        dates[i] = string.format('%d', hour * 3600)  -- beyond the cap of hot:published
      elseif math.floor(date / 3600) ~= hour then
        redis.call('ZREM', KEYS[k], id)
        clean = false
      end
    end
  end
  for i = 1, #head, 2 do
    out[#out + 1] = head[i]
    out[#out + 1] = head[i + 1]
    out[#out + 1] = dates[(i + 1) / 2]
  end
  if offset == 0 then
    if head[2] then
      redis.call('ZADD', KEYS[1], 'LT', head[2], ARGV[k])
    else
      redis.call('ZREM', KEYS[1], ARGV[k])
    end
  end
end
return out
