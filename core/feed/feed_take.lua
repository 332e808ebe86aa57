-- Hands out the next page of a reader's buffer, once: what it returns is pending from now on.
--
-- KEYS 1 feed:cache:{reader}  2 feed:state:{reader}  3 feed:pending:{reader}  4 hot:hidden  [5 feed:page:{reader}:{request}, if ARGV 6]
-- ARGV 1 limit  2 digest of the query  3 TTL s of the page  4 TTL s of what is pending  5 most pending  6 1: the page is remembered
--      7 generation and 8 sequence of the page to refill, '0' for a new one  9… what is on it already
-- Returns {'page' or 'replay', 'generation sequence moves buffered exhausted item…'}, or {'empty'} when there is no buffer for this query.
-- Error TOO_MANY_PENDING: nothing was handed out.
local refill = ARGV[7] ~= '0'
if ARGV[6] == '1' and not refill then
  local had = redis.call('GET', KEYS[5])
  if had then return {'replay', had} end
end
--@include feed_head
local before = {unpack(ARGV, 9)}
if was[1] and was[4] == query then pop_page() end
if #items == 0 and not refill then return {'empty'} end
moves = moves + 1
if was[1] then redis.call('HSET', state, 'moves', moves, 'sequence', refill and sequence or sequence + 1) end
sequence = sequence + 1
if refill then generation, sequence = tonumber(ARGV[7]), tonumber(ARGV[8]) end
--@include feed_tail
