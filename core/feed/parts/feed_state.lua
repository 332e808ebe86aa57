-- What handing out a page begins with. Expects KEYS and ARGV as feed_take.lua has them.
--
-- The hash of a reader's feed: `head`, of the buffer: 'generation sequence handout_seq left done known query', where handout_seq is the number of the
-- last handout; `noted`: how often something else than a page was recorded for the reader, and `known` what that was when the buffer was filled;
-- '0' … '3': the last four pages, by their seq modulo 4; `late`: older ones that are not acknowledged, a line each. A page is
-- '0=request seq time generation sequence buffered exhausted item…': 0, or 1 when it is acknowledged; seq is the number of its handout; `time` (ms)
-- is when it was handed out, then when it was acknowledged; an item with ':' before it was also shown by who asked for the page again.
local cache, state, limit, query = KEYS[1], KEYS[2], tonumber(ARGV[1]), ARGV[2]
--@include clock
local now = now_ms()
local was = call('HMGET', state, '0', '1', '2', '3', 'head', 'noted', 'late')
local generation, sequence, handout_seq, left, done, known, of = '0', 0, 0, 0, '0', '0', nil
local head = {string.match(was[5] or '', '^(%d+) (%d+) (%d+) (%d+) (%d) (%d+) (.*)$')}
if head[1] then
  generation, sequence, handout_seq, left = head[1], head[2] + 0, head[3] + 0, head[4] + 0
  done, known, of = head[5], head[6], head[7]
end
local noted, late = was[6] or '0', was[7] or ''

-- A request that was answered within the window: with the same page.
if ARGV[3] ~= '' and ARGV[7] == '0' then
  local request = '=' .. ARGV[3] .. ' '
  for slot = 1, 4 do
    local page = was[slot]
    if page and page:sub(2, #request + 1) == request and now - (page:match(' %d+ (%d+)') or 0) <= ARGV[4] * 1000 then
      return {'replay', page, '0', {}}
    end
  end
end

-- Pages that wait for their acknowledgement.
local waiting = {}
for slot = 1, 4 do
  if was[slot] and was[slot]:byte() == 48 then waiting[#waiting + 1] = was[slot] end
end
if late ~= '' then
  for page in late:gmatch('[^\n]+') do waiting[#waiting + 1] = page end
end
if #waiting > 0 then
  local impressions = limit
  for _, page in ipairs(waiting) do impressions = impressions + select(2, page:gsub(' ', '')) - 6 end
  if impressions > tonumber(ARGV[6]) then return redis.error_reply('TOO_MANY_PENDING impressions wait to be recorded') end
end

local items = {}
-- What is in a buffer has not been handed out. A line may hold more than the page has room for: the rest goes back.
local function pop()
  while #items < limit do
    local line = call('LPOP', cache)
    if not line then
      left = 0
      return
    end
    for id, rest in line:gmatch('(%S+)()') do
      items[#items + 1], left = id, left - 1
      if #items == limit and rest <= #line then
        call('LPUSH', cache, line:sub(rest + 1))
        call('EXPIRE', cache, ARGV[8])
        return
      end
    end
  end
end
