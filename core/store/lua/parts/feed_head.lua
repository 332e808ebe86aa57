-- What handing out a page begins with. Expects KEYS and ARGV as feed_take.lua has them.
-- Pending items: the score of one whose impression is not acknowledged is minus the time (ms) it was handed out at; afterwards plus the time of
-- the acknowledgement. They are kept a minute longer, so that a request which read the filter before then still finds them here.
local cache, state, pending = KEYS[1], KEYS[2], KEYS[3]
local hidden, page = ARGV[6] == '1' and KEYS[4], ARGV[7] == '1' and KEYS[#KEYS]
local limit, query = tonumber(ARGV[1]), ARGV[2]
local clock = redis.call('TIME')
local now = tonumber(clock[1]) * 1000 + math.floor(tonumber(clock[2]) / 1000)
local was = redis.call('HMGET', state, 'generation', 'sequence', 'query', 'done')
local generation, sequence, done = tonumber(was[1] or 0), tonumber(was[2] or 0), was[4] == '1'
redis.call('ZREMRANGEBYSCORE', pending, 1, now - 60000)
redis.call('ZREMRANGEBYSCORE', pending, -(now - tonumber(ARGV[4]) * 1000), -1)
if redis.call('ZCOUNT', pending, '-inf', -1) + limit > tonumber(ARGV[5]) then
  return redis.error_reply('TOO_MANY_PENDING impressions wait to be recorded')
end

-- Of `ids`, those that may be shown: not hidden, not handed out lately, not twice.
local items, taken = {}, {}
local function admit(ids)
  if #ids == 0 then return end
  local out = redis.call('ZMSCORE', pending, unpack(ids))
  local dark = hidden and redis.call('ZMSCORE', hidden, unpack(ids)) or {}
  for i, id in ipairs(ids) do
    if not out[i] and not dark[i] and not taken[id] then
      taken[id] = true
      items[#items + 1] = id
    end
  end
end
local function pop_page()
  while #items < limit do
    local ids = redis.call('LPOP', cache, limit - #items)
    if not ids then break end
    admit(ids)
  end
end
