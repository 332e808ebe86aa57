-- Hands out the next page of a reader's buffer, once: what it returns waits for its acknowledgement from now on.
--
-- KEYS 1 feed:cache:{reader}  2 feed:state:{reader}
-- ARGV 1 limit  2 digest of the query  3 request that may be repeated, or ''  4 s for which it may be  5 TTL s while a page is not acknowledged
--      6 most impressions that are not  7 number of the handout to refill, '0' for a new one  8 TTL s of the buffer
--      9 generation and sequence of the page to refill, with a blank between  10… what is on it already
-- Returns {'page' or 'replay', page as in feed_state.lua, 1: something else was recorded since the buffer was filled, {page that waits for its
--   acknowledgement, …}}, or {'empty'} when there is no buffer for this query. Error TOO_MANY_PENDING: nothing was handed out.
--@include feed_state
local changes, of_page = {}, ARGV[9]
if of == query then pop() end
if ARGV[7] == '0' then
  if #items == 0 then return {'empty'} end
  sequence = sequence + 1
  of_page = generation .. ' ' .. sequence
else
  -- The page becomes a new handout; on the old one is left what who asked for it again was shown of it.
  local old = tonumber(ARGV[7])
  local had = was[old % 4 + 1]
  if had and had:match(' (%d+)') == ARGV[7] then
    local again = ''
    for id in had:gmatch(' (:%S+)') do again = again .. ' ' .. id end
    had = (again ~= '' and '0= ' or '1= ') .. ARGV[7] .. ' ' .. now .. ' ' .. of_page .. ' 0 0' .. again
    was[old % 4 + 1] = had
    changes = {old % 4, had}
  end
  local all = {unpack(ARGV, 10)}
  for _, id in ipairs(items) do all[#all + 1] = id end
  items = all
end
--@include feed_hand_out
