-- Delivers the next page of a reader's buffer, exactly once. The page then awaits its acknowledgement.
--
-- KEYS 1 feed:cache:{reader}  2 feed:state:{reader}
-- ARGV 1 limit  2 digest of the query  3 idempotency key, or ''  4 replay window in s  5 TTL s while a page is not acknowledged
--      6 limit of unacknowledged impressions  7 number of the delivery to refill, '0' for a new page  8 TTL s of the buffer
--      9 generation and sequence of the page to refill, separated by U+001F  10… items to keep on it
-- Returns {'page' or 'replay', page as in feed_state.lua, '1' if impressions were recorded elsewhere since the buffer was filled,
--   {unacknowledged page, …}}, or {'empty'} if there is no buffer for this query. Error TOO_MANY_PENDING: nothing was delivered.
--@include feed_state
local changes, page_id = {}, ARGV[9]
if buffer_query == query then pop() end
if ARGV[7] == '0' then
  if #items == 0 then return {'empty'} end
  sequence = sequence + 1
  page_id = generation .. '\031' .. sequence
else
  -- The refilled page is a new delivery. The old one keeps only the items that were shown in replays of it.
  local old = tonumber(ARGV[7])
  local page = fields[old % 4 + 1]
  if page and page:match('\031(%d+)') == ARGV[7] then
    local replayed = ''
    for id in page:gmatch('\031(\030[^\031]+)') do replayed = replayed .. '\031' .. id end
    page = (replayed ~= '' and '0=\031' or '1=\031') .. ARGV[7] .. '\031' .. now .. '\031' .. page_id .. '\0310\0310' .. replayed
    fields[old % 4 + 1] = page
    changes = {old % 4, page}
  end
  local all = {unpack(ARGV, 10)}
  for _, id in ipairs(items) do all[#all + 1] = id end
  items = all
end
--@include feed_deliver
