-- What handing out a page ends with. Expects feed_state.lua, the page in `items`, its generation and sequence in `of_page` (the buffer's, unless it is
-- a refill), and in `changes` what else is written.
-- Numbers of handouts begin with the time: what a reader's erasure forgot is never taken for what came later.
handout_seq = (handout_seq > 0 and handout_seq or now) + 1
local slot, seq = handout_seq % 4, ' ' .. handout_seq .. ' '
local before = was[slot + 1]
if before and before:byte() == 48 then
  changes[#changes + 1], changes[#changes + 2] = 'late', late .. before .. '\n'
end
local page = (#items > 0 and '0=' or '1=') .. ARGV[3] .. seq .. now .. ' ' .. of_page .. (left > 0 and ' 1' or ' 0')
  .. (left == 0 and done == '1' and ' 1' or ' 0')
if #items > 0 then page = page .. ' ' .. table.concat(items, ' ') end
changes[#changes + 1], changes[#changes + 2] = slot, page
changes[#changes + 1], changes[#changes + 2] = 'head',
  generation .. ' ' .. sequence .. seq .. left .. ' ' .. done .. ' ' .. known .. ' ' .. (of or query)
call('HSET', state, unpack(changes))
call('EXPIRE', state, (#items > 0 or #waiting > 0) and ARGV[5] or ARGV[8])
return {'page', page, noted == known and '0' or '1', waiting}
