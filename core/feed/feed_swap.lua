-- Replaces a reader's buffer by new candidates and hands out the first page of them. When another refresh of the same query came first, its buffer
-- stays and the page comes from there.
--
-- KEYS and ARGV 1…7 as feed_take.lua
-- ARGV 8 generation and 9 moves that the caller saw  10 1: recall has no more than these  11 TTL s of the buffer  12… candidates, best first
-- Returns as feed_take.lua, never 'empty'.
if ARGV[7] == '1' then
  local had = redis.call('GET', KEYS[#KEYS])
  if had then return {'replay', had} end
end
--@include feed_head
local seen_generation, seen_moves = tonumber(ARGV[8]), tonumber(ARGV[9])
if generation ~= seen_generation and was[4] == query then
  pop_page()
else
  local candidates, from = ARGV, 12
  if generation ~= seen_generation or moves ~= seen_moves then
    -- Something was handed out since the caller looked.
    local out = {}
    for _, each in ipairs(redis.call('ZRANGE', pending, 0, -1)) do
      for id in string.gmatch(each, ' ([^ ]+)') do out[id] = true end
    end
    candidates, from = {}, 1
    for i = 12, #ARGV do
      if not out[ARGV[i]] then candidates[#candidates + 1] = ARGV[i] end
    end
  end
  while #items < limit and from <= #candidates do
    local last = math.min(from + limit - #items - 1, #candidates)
    admit({unpack(candidates, from, last)})
    from = last + 1
  end
  redis.call('DEL', cache)
  while from <= #candidates do
    local last = math.min(from + 999, #candidates)
    redis.call('RPUSH', cache, unpack(candidates, from, last))
    from = last + 1
  end
  redis.call('EXPIRE', cache, ARGV[11])
  generation, sequence, done = math.max(now, generation + 1), 0, ARGV[10] == '1'
  redis.call('HSET', state, 'generation', string.format('%.0f', generation), 'query', query, 'done', ARGV[10])
  redis.call('EXPIRE', state, ARGV[11])
end
sequence, moves = sequence + 1, moves + 1
redis.call('HSET', state, 'sequence', sequence, 'moves', moves)
local before = {}
--@include feed_tail
