-- Replaces a reader's buffer by new candidates and hands out the first page of them. When another refresh of the same query came first, its buffer
-- stays and the page comes from there.
--
-- KEYS and ARGV 1…7 as feed_take.lua
-- ARGV 8 generation that the caller saw  9 1: recall has no more than these  10 TTL s of the buffer  11… candidates, best first
-- Returns as feed_take.lua, never 'empty'.
if ARGV[7] == '1' then
  local had = redis.call('GET', KEYS[#KEYS])
  if had then return {'replay', had} end
end
--@include feed_head
if generation ~= tonumber(ARGV[8]) and was[3] == query then
  pop_page()
else
  local from = 11
  while #items < limit and from <= #ARGV do
    local last = math.min(from + limit - #items - 1, #ARGV)
    admit({unpack(ARGV, from, last)})
    from = last + 1
  end
  redis.call('DEL', cache)
  while from <= #ARGV do
    local last = math.min(from + 999, #ARGV)
    redis.call('RPUSH', cache, unpack(ARGV, from, last))
    from = last + 1
  end
  redis.call('EXPIRE', cache, ARGV[10])
  generation, sequence, done = math.max(now, generation + 1), 0, ARGV[9] == '1'
  redis.call('HSET', state, 'generation', string.format('%.0f', generation), 'query', query, 'done', ARGV[9])
  redis.call('EXPIRE', state, ARGV[10])
end
sequence = sequence + 1
redis.call('HSET', state, 'sequence', sequence)
local before = {}
--@include feed_tail
