-- Defines put(key, companion, from, to), which adds the entries ARGV[from] to ARGV[to] to one reader's keys as reader_put.lua says, and returns the
-- number of new members. Expects ARGV 1–4 as there.
local max_members, ttl, max_prints, now = tonumber(ARGV[1]), ARGV[2], tonumber(ARGV[3]), call('TIME')[1]
local clock = tonumber(now)
local function exclude(earlier, removed)
  local prints = ''
  for _, member in ipairs(removed) do
    if member:sub(1, 2) ~= 'v:' then prints = prints .. redis.sha1hex(member:sub(3)):sub(1, 10) end
  end
  if prints == '' or max_prints == 0 or call('APPEND', earlier, prints) <= 11 * max_prints then return end
  local all, last, kept = call('GET', earlier), {}, {}
  for i = 1, #all, 10 do last[all:sub(i, i + 9)] = i end
  for i = 1, #all, 10 do
    local print = all:sub(i, i + 9)
    if last[print] == i then kept[#kept + 1] = print end
  end
  call('SET', earlier, table.concat(kept, '', max(1, #kept - max_prints + 1)))
end
-- `companion`: user:earlier or user:not_interested:why.
local function put(key, companion, from, to)
  local newest, times_and_members = ARGV[4] == '' and 0 or clock, {}
  for i = from, to, 3 do
    local at = ARGV[i] == '' and now or ARGV[i]
    newest = max(newest, at + 0)
    times_and_members[#times_and_members + 1], times_and_members[#times_and_members + 2] = at, ARGV[i + 1]
  end
  local new = call('ZADD', key, 'GT', unpack(times_and_members))
  if not max_prints then
    for i = from, to, 3 do
      local at, member, reason = tonumber(ARGV[i]) or clock, ARGV[i + 1], ARGV[i + 2]
      if tonumber(call('ZSCORE', key, member)) == at then
        call(reason == '' and 'HDEL' or 'HSET', companion, member, reason)
      end
    end
  end
  local old_ttl = call('TTL', key)
  local removed = new > 0 and (old_ttl >= 0 or new > max_members) and call('ZRANGE', key, 0, -max_members - 1) or {}
  if removed[1] then call('ZREMRANGEBYRANK', key, 0, -max_members - 1) end
  if max_prints then
    exclude(companion, removed)
  else
    for _, member in ipairs(call('ZRANGEBYSCORE', key, '-inf', clock - ttl)) do removed[#removed + 1] = member end
    for _, member in ipairs(removed) do call('HDEL', companion, member) end
    call('ZREMRANGEBYSCORE', key, '-inf', clock - ttl)
  end
  local new_ttl, changes_both = max(1, old_ttl, newest + ttl - clock), removed[1] or not max_prints
  if changes_both or old_ttl < new_ttl - (tonumber(ARGV[4]) or 0) then
    call('EXPIRE', key, format('%d', new_ttl))
    if changes_both or old_ttl >= 0 then call('EXPIRE', companion, format('%d', new_ttl)) end
  end
  return new
end
