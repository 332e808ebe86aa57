-- Stages a visitor's contribution to an item until it is subtracted from the item's counters
-- (core/hot/contributions.h): moves field a:{id} to p:{id}, unless another one is still staged.
--
-- KEYS 1 hot:added:{visitor}
-- ARGV 1 id  [2 the contribution that was subtracted: it is deleted if it is staged]
-- Returns the staged contribution or '', and 1 if field a:{id} holds another one.
local field, staged = 'a:' .. ARGV[1], 'p:' .. ARGV[1]
local text = call('HGET', KEYS[1], staged)
if ARGV[2] then return text == ARGV[2] and call('HDEL', KEYS[1], staged) end
if text then return {text, call('HEXISTS', KEYS[1], field)} end
text = call('HGET', KEYS[1], field)
if not text then return {'', 0} end
call('HSET', KEYS[1], staged, text)  -- first, so that the key keeps its TTL
call('HDEL', KEYS[1], field)
return {text, 0}
