-- End of every script that delivers a page. Expects feed_state.lua, the page in `items`, its generation and sequence in `page_id` (the buffer's,
-- unless it is a refill), and further fields to write in `changes`.
-- Delivery numbers start from the time, so that pages from before a reader's erasure are never mistaken for later ones.
delivery_seq = (delivery_seq > 0 and delivery_seq or now) + 1
local slot = delivery_seq % 4
local replaced = fields[slot + 1]
if replaced and replaced:byte() == 48 then
  changes[#changes + 1], changes[#changes + 2] = 'late', late .. replaced .. '\n'
end
local page = (#items > 0 and '0=' or '1=') .. ARGV[3] .. '\031' .. delivery_seq .. '\031' .. now .. '\031' .. page_id .. (remaining > 0 and '\0311' or '\0310')
  .. (remaining == 0 and exhausted == '1' and '\0311' or '\0310')
if #items > 0 then page = page .. '\031' .. table.concat(items, '\031') end
changes[#changes + 1], changes[#changes + 2] = slot, page
changes[#changes + 1], changes[#changes + 2] = 'head',
  generation .. ' ' .. sequence .. ' ' .. delivery_seq .. ' ' .. remaining .. ' ' .. exhausted .. ' ' .. noted_at_fill .. ' ' .. (buffer_query or query)
call('HSET', state, unpack(changes))
call('EXPIRE', state, (#items > 0 or #unacknowledged > 0) and ARGV[5] or ARGV[8])
return {'page', page, noted == noted_at_fill and '0' or '1', unacknowledged}
