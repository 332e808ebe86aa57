-- Hands out the next page of a reader's buffer, once: what it returns is pending from now on.
--
-- KEYS 1 feed:cache:{reader}  2 feed:state:{reader}  3 feed:pending:{reader}  then, if ARGV 6, hot:hidden, then, if ARGV 7, feed:page:{reader}:{request}
-- ARGV 1 limit  2 digest of the query  3 TTL s of the page  4 TTL s of what is pending  5 most pending  6 1: hot:hidden is here  7 1: the page is remembered
--      8 generation and 9 sequence of the page to refill, '0' for a new one  10… what is on it already
-- Returns {'page' or 'replay', 'generation sequence moves buffered exhausted item…'}, or {'empty'} when there is no buffer for this query.
-- Error TOO_MANY_PENDING: nothing was handed out.
local refill = ARGV[8] ~= '0'
if ARGV[7] == '1' and not refill then
  local had = redis.call('GET', KEYS[#KEYS])
  if had then return {'replay', had} end
end
--@include feed_head
local before = {unpack(ARGV, 10)}
if was[1] and was[4] == query then pop_page() end
if #items == 0 and not refill then return {'empty'} end
moves = moves + 1
if was[1] then redis.call('HSET', state, 'moves', moves, 'sequence', refill and sequence or sequence + 1) end
sequence = sequence + 1
if refill then generation, sequence = tonumber(ARGV[8]), tonumber(ARGV[9]) end
--@include feed_tail
