-- A reader joins those who follow an author, and learns what the author published so far.
--
-- KEYS 1 follow:readers:{author}  2 follow:outbox:{author}  3 follow:pull:{author}
-- ARGV 1 reader  2 how many of the newest items
-- Returns {the highest score in KEYS[3] ever, items, the newest last}.
--@include timeline
local newest, out = redis.call('ZREVRANGEBYSCORE', KEYS[2], '+inf', '(0', 'LIMIT', 0, ARGV[2]), {whole(mark(KEYS[3], ':') + 0)}  -- + 0: not -0
for i = #newest, 1, -1 do out[#out + 1] = newest[i] end
push(KEYS[1], {ARGV[1]}, math.huge, clock_us())
return out
