-- Start of every script that delivers a page: reads the reader's state. Expects KEYS and ARGV as in feed_next.lua.
--
-- The hash of a reader's feed has these fields:
--   head    of the buffer: 'generation sequence delivery_seq remaining exhausted noted_at_fill query'. delivery_seq is the number of the last delivery.
--           noted_at_fill is the value of `noted` when the buffer was filled.
--   noted   number of times impressions were recorded for the reader outside of feed pages
--   0 … 3   the last four pages, at delivery_seq modulo 4
--   late    older pages that are not acknowledged, one per line
-- A page is '0=key', seq, time, generation, sequence, buffered, exhausted and its items, separated by U+001F. It begins with 1 instead of 0 once it is acknowledged. `key` is the
-- idempotency key and may be empty, `seq` the delivery's number. `time` (ms) is when the page was delivered; once acknowledged, when that happened.
-- `buffered` is 1 if the buffer holds more. An item prefixed with U+001E was also shown in a replay of the page.
local cache, state, limit, query = KEYS[1], KEYS[2], tonumber(ARGV[1]), ARGV[2]
--@include clock
local now = now_ms()
local fields = call('HMGET', state, '0', '1', '2', '3', 'head', 'noted', 'late')
local generation, sequence, delivery_seq, remaining, exhausted, noted_at_fill, buffer_query = '0', 0, 0, 0, '0', '0', nil
local head = {string.match(fields[5] or '', '^(%d+) (%d+) (%d+) (%d+) (%d) (%d+) (.*)$')}
if head[1] then
  generation, sequence, delivery_seq, remaining = head[1], head[2] + 0, head[3] + 0, head[4] + 0
  exhausted, noted_at_fill, buffer_query = head[5], head[6], head[7]
end
local noted, late = fields[6] or '0', fields[7] or ''

-- Replay: the idempotency key was answered within the window.
if ARGV[3] ~= '' and ARGV[7] == '0' then
  local key = '=' .. ARGV[3] .. '\031'
  for slot = 1, 4 do
    local page = fields[slot]
    if page and page:sub(2, #key + 1) == key and now - (page:match('\031%d+\031(%d+)') or 0) <= ARGV[4] * 1000 then
      return {'replay', page, '0', {}}
    end
  end
end

-- Unacknowledged pages.
local unacknowledged = {}
for slot = 1, 4 do
  if fields[slot] and fields[slot]:byte() == 48 then unacknowledged[#unacknowledged + 1] = fields[slot] end
end
if late ~= '' then
  for page in late:gmatch('[^\n]+') do unacknowledged[#unacknowledged + 1] = page end
end
if #unacknowledged > 0 then
  local impressions = limit
  for _, page in ipairs(unacknowledged) do impressions = impressions + select(2, page:gsub('\031', '')) - 6 end
  if impressions > tonumber(ARGV[6]) then return redis.error_reply('TOO_MANY_PENDING impressions wait to be recorded') end
end

local items = {}
-- Moves items from the buffer to the page. The part of a line that does not fit goes back.
local function pop()
  while #items < limit do
    local line = call('LPOP', cache)
    if not line then
      remaining = 0
      return
    end
    for id, rest in line:gmatch('([^\031]+)()') do
      items[#items + 1], remaining = id, remaining - 1
      if #items == limit and rest <= #line then
        call('LPUSH', cache, line:sub(rest + 1))
        call('EXPIRE', cache, ARGV[8])
        return
      end
    end
  end
end
