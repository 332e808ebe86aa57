-- Adds interactions or dismissals of readers, each with its time; an entry with a later time stays as it is. Only the newest are kept. Interactions that
-- are pushed out, other than views, leave their item excluded: ten hex digits of its SHA-1 are appended to user:earlier (core/base/fingerprint.h).
-- Once that string is a tenth too long, duplicates and the oldest fingerprints are removed. Readers whose keys have a wrong type are skipped.
--
-- KEYS 1… user:interactions:{reader} and user:earlier:{reader} of each, alternating, by slot_or_zero()
--      ; or 1 user:not_interested:{reader}  2 user:not_interested:why:{reader}
-- ARGV 1 maximum members  2 TTL s  3 maximum fingerprints in user:earlier, '' for dismissals  4 s by which a TTL may fall short before it is renewed;
--      '': the TTL counts from the newest entry instead of from now (for restored data)
--      5… for each reader: number of entries, then unix second ('': now), member and reason ('': none) of each
-- Returns the number of new members, or the error of the last reader who was skipped.
local max_members, ttl, max_prints = tonumber(ARGV[1]), ARGV[2], tonumber(ARGV[3])
local clock, added, failure = tonumber(call('TIME')[1]), 0
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
-- The entries are ARGV[from] to ARGV[to]. `companion`: user:earlier or user:not_interested:why.
local function put(key, companion, from, to)
  local newest, times_and_members = ARGV[4] == '' and 0 or clock, {}
  for i = from, to, 3 do
    local at = tonumber(ARGV[i]) or clock
    newest = max(newest, at)
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
    call('EXPIRE', key, new_ttl)
    if changes_both or old_ttl >= 0 then call('EXPIRE', companion, new_ttl) end
  end
  return new
end
local from = 6
for k = 1, #KEYS, 2 do
  local to = from + 3 * ARGV[from - 1] - 1
  local written, new = pcall(put, KEYS[k], KEYS[k + 1], from, to)
  from = to + 2
  if written then added = added + new else failure = new end
end
return failure or added
