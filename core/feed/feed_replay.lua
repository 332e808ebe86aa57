-- Called before an unacknowledged page is shown in a replay: decides which of its items may be shown, and marks them as shown.
--
-- KEYS 1 feed:state:{reader}
-- ARGV 1 idempotency key  2… items
-- Returns those of the items that are still on the page. The request that delivered it may have left out others, which may be delivered again.
local pages = call('HMGET', KEYS[1], '0', '1', '2', '3')
local key, wanted, out = '=' .. ARGV[1] .. '\031', {}, {}
for i = 2, #ARGV do wanted[ARGV[i]] = true end
for slot = 1, 4 do
  local page = pages[slot]
  if page and page:sub(2, #key + 1) == key then
    local head, items = page:match('^([^\031]+\031%d+\031%d+\031%d+\031%d+\031%d\031%d)(.*)$')
    for mark, id in string.gmatch(items or '', '\031(\030?)([^\031\030]+)') do
      if wanted[id] then out[#out + 1], mark = id, '\030' end
      head = head .. '\031' .. mark .. id
    end
    if #out > 0 and page:byte() == 48 then call('HSET', KEYS[1], slot - 1, head) end
  end
end
return out
