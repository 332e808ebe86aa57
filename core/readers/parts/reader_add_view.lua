-- Defines add_view(): adds a view to a reader's history as reader_view.lua says.
-- Parameters: the list, user:views:at and feed:state of the reader; the item; t (topic) or r (reply); maximum items; TTL s (a text); time of the view or nil
-- (now), at most `clock`; 1 if merged, else 0; Redis' time. Returns 1, or 0 if the view changes nothing. With a time it also returns the item that was the
-- newest, if that was viewed in the half hour before and `item` not in the day before. Both keys' TTLs are renewed once a day, or after an eighth of the
-- TTL.
local function add_view(list, times, state, item, letter, limit, ttl, given, merged, clock)
  local at, prefix, is_unknown, seen, before = given or clock, letter .. ':'
  local field = prefix .. item
  if given then  -- ignore views older than the known one, than the clear mark (reader_clear_views.lua), or than the TTL
    local known = call('HMGET', times, field, letter)
    local oldest = merged == 1 and -1 or max(tonumber(known[2]) or -1, clock - ttl)
    local latest = known[1] and math.abs(tonumber(known[1])) or -1  -- negative: removed then (reader_remove_view.lua)
    if at <= max(latest, oldest) then return 0 end
    is_unknown, seen = not known[1], latest > at - 86400
  end

  local first, length = call('LRANGE', list, '0', '0')[1], 0
  if first ~= item then
    if first and not is_unknown then call('LREM', list, 0, item) end
    local function time_of(other) return tonumber(call('HGET', times, prefix .. other)) or 0 end
    local function is_later(other) return time_of(other) > at - merged end
    local first_at = first and given and time_of(first)
    if first_at and not seen and first_at <= at and first_at >= at - 1800 then before = first end
    if not first_at or first_at <= at - merged then
      length = call('LPUSH', list, item)
    else
      for _, other in ipairs(call('LRANGE', list, 1, limit - 1)) do
        if not is_later(other) then
          length = call('LINSERT', list, 'BEFORE', other, item)
          break
        end
      end
      if length == 0 then length = call('RPUSH', list, item) end
    end
  end
  if length == 1 then  -- the list had expired; the shared hash may have outlived it
    local fields = call('HGETALL', times)
    for i = 1, #fields, 2 do
      if fields[i]:sub(1, 2) == prefix and fields[i + 1]:byte() ~= 45 then call('HDEL', times, fields[i]) end
    end
  end
  call('HSET', times, field, format('%.0f', at))
  if length > limit then
    for _, removed in ipairs(call('LRANGE', list, limit, -1)) do call('HDEL', times, prefix .. removed) end
    call('LTRIM', list, 0, limit - 1)
  end
  if call('EXISTS', state) == 1 then call('HINCRBY', state, 'noted', '1') end  -- as feed_external.lua
  for _, key in ipairs({list, times}) do
    local left = length == 1 and merged == 0 and -1 or call('TTL', key)
    if merged == 1 and left < ttl + 0 or merged == 0 and (left < ttl - min(86400, ttl / 8) or left > ttl + 0) then
      call('EXPIRE', key, ttl)  -- renewing once a day is enough
    end
  end
  return 1, before
end
