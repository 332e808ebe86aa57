-- A page that is not acknowledged was asked for again: what of it may be shown, and that it was.
--
-- KEYS 1 feed:state:{reader}
-- ARGV 1 the request  2… items
-- Returns those of the items that are still on the page: who handed it out may have left out others, which may come again.
local pages = call('HMGET', KEYS[1], '0', '1', '2', '3')
local request, wanted, out = '=' .. ARGV[1] .. ' ', {}, {}
for i = 2, #ARGV do wanted[ARGV[i]] = true end
for slot = 1, 4 do
  local page = pages[slot]
  if page and page:sub(2, #request + 1) == request then
    local head, items = page:match('^(%S+ %d+ %d+ %d+ %d+ %d %d)(.*)$')
    for mark, id in string.gmatch(items or '', ' (:?)([^ :]+)') do
      if wanted[id] then out[#out + 1], mark = id, ':' end
      head = head .. ' ' .. mark .. id
    end
    if #out > 0 and page:byte() == 48 then call('HSET', KEYS[1], slot - 1, head) end
  end
end
return out
