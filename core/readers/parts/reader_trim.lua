-- Keeps the newest `most` of what a reader did. Of what goes, but for views, the item stays excluded: ten digits of its SHA-1 join `earlier`
-- (core/base/fingerprint.h), of which the newest `most_earlier` are kept. It is rid of what stands there twice, and of the oldest, when a tenth too long.
-- Expects: call  done (user:interactions)  earlier (user:earlier)  most  most_earlier (0: nothing joins).
local gone = call('ZRANGE', done, 0, -most - 1)
if gone[1] then
  call('ZREMRANGEBYRANK', done, 0, -most - 1)
  local prints = {}
  for _, member in ipairs(gone) do
    if member:sub(1, 2) ~= 'v:' then prints[#prints + 1] = redis.sha1hex(member:sub(3)):sub(1, 10) end
  end
  if prints[1] and most_earlier > 0 and call('APPEND', earlier, table.concat(prints)) > 11 * most_earlier then
    local all, known, kept = call('GET', earlier), {}, {}
    for i = #all - 9, 1, -10 do
      local print = all:sub(i, i + 9)
      if not known[print] then
        known[print] = true
        kept[#kept + 1] = print
        if #kept == most_earlier then break end
      end
    end
    for i = 1, math.floor(#kept / 2) do kept[i], kept[#kept + 1 - i] = kept[#kept + 1 - i], kept[i] end
    call('SET', earlier, table.concat(kept))
  end
end
