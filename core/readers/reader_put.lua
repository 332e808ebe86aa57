-- Puts what readers did, or do not want, at its time: what is there of a later time stays. The newest so many are kept; of what goes beyond them, but
-- for views, the item stays excluded: ten digits of its SHA-1 join user:earlier (core/base/fingerprint.h), of which the newest so many are kept.
-- It is rid of what stands there twice, and of the oldest, when a tenth too long. A reader whose keys are of another type is passed over.
--
-- KEYS 1… user:interactions:{reader} and user:earlier:{reader} of each, in turns, by slot_or_zero()
--      ; or 1 user:not_interested:{reader}  2 user:not_interested:why:{reader}
-- ARGV 1 most members  2 TTL s  3 most of user:earlier, '': these are dismissals  4 s that may be missing of a TTL before it is renewed, '': the
--      TTL counts from the newest second (they are brought back), not from now
--      5… unix second ('': now), member and reason ('': none) of each, as many for each reader
-- Returns how many were new; the error of the last reader who was passed over.
local most, ttl, most_earlier = tonumber(ARGV[1]), ARGV[2], tonumber(ARGV[3])
local clock, each, all, why = tonumber(call('TIME')[1]), (#ARGV - 4) / #KEYS * 2, 0
local function exclude(earlier, gone)
  local prints = ''
  for _, member in ipairs(gone) do
    if member:sub(1, 2) ~= 'v:' then prints = prints .. redis.sha1hex(member:sub(3)):sub(1, 10) end
  end
  if prints == '' or most_earlier == 0 or call('APPEND', earlier, prints) <= 11 * most_earlier then return end
  local known, last, kept = call('GET', earlier), {}, {}
  for i = 1, #known, 10 do last[known:sub(i, i + 9)] = i end
  for i = 1, #known, 10 do
    local print = known:sub(i, i + 9)
    if last[print] == i then kept[#kept + 1] = print end
  end
  call('SET', earlier, table.concat(kept, '', max(1, #kept - most_earlier + 1)))
end
local function put(done, beside, from)
  local new, newest = 0, ARGV[4] == '' and 0 or clock
  for i = from, from + each - 1, 3 do
    local at, member, reason = tonumber(ARGV[i]) or clock, ARGV[i + 1], ARGV[i + 2]
    newest = max(newest, at)
    new = new + call('ZADD', done, 'GT', at, member)
    if not most_earlier and tonumber(call('ZSCORE', done, member)) == at then
      call(reason == '' and 'HDEL' or 'HSET', beside, member, reason)
    end
  end
  local had = call('TTL', done)
  local gone = new > 0 and (had >= 0 or new > most) and call('ZRANGE', done, 0, -most - 1) or {}
  if gone[1] then call('ZREMRANGEBYRANK', done, 0, -most - 1) end
  if most_earlier then
    exclude(beside, gone)
  else
    for _, member in ipairs(call('ZRANGEBYSCORE', done, '-inf', clock - ttl)) do gone[#gone + 1] = member end
    for _, member in ipairs(gone) do call('HDEL', beside, member) end
    call('ZREMRANGEBYSCORE', done, '-inf', clock - ttl)
  end
  local left, both = max(1, had, newest + ttl - clock), gone[1] or not most_earlier
  if both or had < left - (tonumber(ARGV[4]) or 0) then
    call('EXPIRE', done, left)
    if both or had >= 0 then call('EXPIRE', beside, left) end
  end
  return new
end
for k = 1, #KEYS, 2 do
  local written, new = pcall(put, KEYS[k], KEYS[k + 1], 5 + (k - 1) / 2 * each)
  if written then all = all + new else why = new end
end
return why or all
