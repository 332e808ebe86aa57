-- Replaces a reader's buffer by new candidates and hands out the first page of them. When another refresh of the same query came first, its buffer
-- stays and the page comes from there.
--
-- KEYS and ARGV 1…6 as feed_take.lua
-- ARGV 7 generation and 8 moves that the caller saw  9 1: recall has no more than these  10 TTL s of the buffer  11… candidates, best first
-- Returns as feed_take.lua, never 'empty'.
if ARGV[6] == '1' then
  local had = redis.call('GET', KEYS[5])
  if had then return {'replay', had} end
end
--@include feed_head
local seen_generation, seen_moves = tonumber(ARGV[7]), tonumber(ARGV[8])
if generation ~= seen_generation and was[4] == query then
  pop_page()
else
  local candidates, from = ARGV, 11
  if generation ~= seen_generation or moves ~= seen_moves then
    -- Something was handed out since the caller looked.
    local out = {}
    for _, each in ipairs(redis.call('ZRANGE', pending, 0, -1)) do
      for id in string.gmatch(each, ' ([^ ]+)') do out[id] = true end
    end
    candidates, from = {}, 1
    for i = 11, #ARGV do
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
  redis.call('EXPIRE', cache, ARGV[10])
  generation, sequence, done = math.max(now, generation + 1), 0, ARGV[9] == '1'
  redis.call('HSET', state, 'generation', string.format('%.0f', generation), 'query', query, 'done', ARGV[9])
  redis.call('EXPIRE', state, ARGV[10])
end
sequence, moves = sequence + 1, moves + 1
redis.call('HSET', state, 'sequence', sequence, 'moves', moves)
local before = {}
--@include feed_tail
