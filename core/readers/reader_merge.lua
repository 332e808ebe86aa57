-- Puts one reader's histories into another's: the newest of both by time. What runs out does so as if all views had been the latter's.
--
-- KEYS 1 user:views:topic:{to}  2 user:views:reply:{to}  3 user:views:at:{to}  4 user:views:topic:{from}
--      5 user:views:reply:{from}  6 user:views:at:{from}: these go
-- ARGV 1 most items  2 TTL s
-- Returns 1.
local call = redis.call
local most, ttl = tonumber(ARGV[1]), tonumber(ARGV[2])
local clock = tonumber(call('TIME')[1])
local fields, longest = {}, 1
for k, letter in ipairs({'t', 'r'}) do
  local newest, place, order = {}, {}, {}
  local function add(item, at)
    if not newest[item] then
      order[#order + 1] = item
      place[item] = #order
    end
    newest[item] = math.max(newest[item] or 0, at)
  end
  local function add_all(list, times)
    for _, item in ipairs(call('LRANGE', list, 0, most - 1)) do add(item, tonumber(call('HGET', times, letter .. ':' .. item)) or 0) end
  end
  add_all(KEYS[k], KEYS[3])
  add_all(KEYS[3 + k], KEYS[6])
  table.sort(order, function(a, b)
    if newest[a] ~= newest[b] then return newest[a] > newest[b] end
    return place[a] < place[b]
  end)
  call('DEL', KEYS[k])
  for i = 1, math.min(#order, most) do
    call('RPUSH', KEYS[k], order[i])
    fields[#fields + 1] = letter .. ':' .. order[i]
    fields[#fields + 1] = string.format('%.0f', newest[order[i]])
  end
  if order[1] then
    local left = newest[order[1]] > 0 and math.max(1, newest[order[1]] + ttl - clock) or ttl
    call('EXPIRE', KEYS[k], left)
    longest = math.max(longest, left)
  end
end
for _, letter in ipairs({'t', 'r'}) do  -- see reader_clear.lua
  local cleared = call('HGET', KEYS[3], letter)
  if cleared then
    fields[#fields + 1] = letter
    fields[#fields + 1] = cleared
    longest = ttl
  end
end
call('DEL', KEYS[3])
if fields[1] then
  call('HSET', KEYS[3], unpack(fields))
  call('EXPIRE', KEYS[3], longest)
end
call('DEL', KEYS[4], KEYS[5], KEYS[6])
return 1
