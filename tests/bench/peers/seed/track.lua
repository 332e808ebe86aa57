-- The original script of design source 001, unchanged: keys are built from ARGV, every view counts, first_ts never expires early.
-- ARGV: now (unix seconds), article, reader, dwell ms, half-life s. Returns {pv, uv, mean dwell, score}; Redis truncates the
-- last two to integers.
local now = tonumber(ARGV[1])
local id = ARGV[2]
local user = ARGV[3]
local dwell = tonumber(ARGV[4])
local half = tonumber(ARGV[5])
if dwell > 180000 then dwell = 180000 end
local pvkey = 'hot:pv:'..id
local uvkey = 'hot:uv:hll:'..id
local sumkey = 'hot:dwell:sum:'..id
local cntkey = 'hot:dwell:cnt:'..id
local tskey = 'hot:first_ts:'..id
local zkey = 'hot:rank'
redis.call('INCR', pvkey)
redis.call('PFADD', uvkey, user)
redis.call('INCRBY', sumkey, dwell)
redis.call('INCR', cntkey)
if redis.call('EXISTS', tskey) == 0 then
redis.call('SET', tskey, now)
end
local pv = tonumber(redis.call('GET', pvkey)) or 0
local uv = tonumber(redis.call('PFCOUNT', uvkey)) or 0
local sum = tonumber(redis.call('GET', sumkey)) or 0
local cnt = tonumber(redis.call('GET', cntkey)) or 0
local avg = 0
if cnt > 0 then avg = sum / cnt end
local base = 1.0 * pv + 3.0 * uv + 0.002 * avg
local first = tonumber(redis.call('GET', tskey)) or now
local age = now - first
local decay = math.exp(-math.log(2) * age / half)
local score = base * decay
redis.call('ZADD', zkey, score, id)
local ttl = 30 * 24 * 3600
redis.call('EXPIRE', pvkey, ttl)
redis.call('EXPIRE', uvkey, ttl)
redis.call('EXPIRE', sumkey, ttl)
redis.call('EXPIRE', cntkey, ttl)
redis.call('EXPIRE', tskey, ttl)
return { pv, uv, avg, score }
