-- What handing out a page begins with. Expects KEYS and ARGV as feed_take.lua has them.
--
-- A member of `pending` is what one script handed out: 'generation.moves item…'. Its score is minus the time (ms) of that while its impressions
-- are not acknowledged, then plus the time of the acknowledgement. It is kept a minute longer, so that a request which read the filter before
-- still finds it here.
local cache, state, pending = KEYS[1], KEYS[2], KEYS[3]
local hidden, page = KEYS[4], KEYS[5]
local limit, query, most = tonumber(ARGV[1]), ARGV[2], tonumber(ARGV[5])
local clock = redis.call('TIME')
local now = tonumber(clock[1]) * 1000 + math.floor(tonumber(clock[2]) / 1000)
local was = redis.call('HMGET', state, 'generation', 'sequence', 'moves', 'query', 'done')
local generation, sequence, moves = tonumber(was[1] or 0), tonumber(was[2] or 0), tonumber(was[3] or 0)
local done = was[5] == '1'
redis.call('ZREMRANGEBYSCORE', pending, 1, now - 60000)
redis.call('ZREMRANGEBYSCORE', pending, -(now - tonumber(ARGV[4]) * 1000), -1)
if (redis.call('ZCOUNT', pending, '-inf', -1) + 1) * 100 > most then  -- a page has at most a hundred
  local unacknowledged = limit
  for _, each in ipairs(redis.call('ZRANGEBYSCORE', pending, '-inf', -1)) do
    unacknowledged = unacknowledged + select(2, string.gsub(each, ' ', ''))
  end
  if unacknowledged > most then return redis.error_reply('TOO_MANY_PENDING impressions wait to be recorded') end
end

local items = {}
-- Of `ids` those that are not hidden now. What is in a buffer has not been handed out.
local function admit(ids)
  local dark, second = redis.call('ZMSCORE', hidden, unpack(ids)), tonumber(clock[1])
  for i, id in ipairs(ids) do
    if not dark[i] or tonumber(dark[i]) <= second then items[#items + 1] = id end
  end
end
local function pop_page()
  while #items < limit do
    local ids = redis.call('LPOP', cache, limit - #items)
    if not ids then break end
    admit(ids)
  end
end
