-- A page of a timeline. In the channel of follows, what pulled authors published since the last page joins the timeline's head first.
-- The names of items and of authors' outboxes stand in the sets themselves, so this script makes them from their prefixes.
--
-- KEYS 1 wf:{channel}:{reader}  2 active:{channel}  then, in the channel of follows, 3 follow:authors:{reader}  4 follow:pulled
-- ARGV 1 first, down or up  2 cursor  3 limit  4 TTL s of the timeline  5 most items of it  6 reader, empty: is not noted  7 most active readers  8 1: what was never put is
--      not shown  9 prefix of item:{id}  10 prefix of follow:pull:{author}
-- Returns {1: the timeline was there, highest score cut off, newer than the cursor, up: those and the cursor's own, looked at, 1: there is
-- more, {id, score, {the fields of append_card()}}…}, nearest first. What is looked at are the items of the page and the hidden ones before, between and
-- behind them, up to the next one that is shown.
--@include timeline
local key, direction, cursor = KEYS[1], ARGV[1], ARGV[2]
local from = direction == 'first' and '+inf' or '(' .. cursor
local function look(count)
  if direction == 'down' then return redis.call('ZRANGEBYSCORE', key, from, '+inf', 'WITHSCORES', 'LIMIT', 0, count) end
  return redis.call('ZREVRANGEBYSCORE', key, from, '(0', 'WITHSCORES', 'LIMIT', 0, count)
end
-- The highest score that was cut off, and how many are newer than the cursor; 'up' also: those and the one at it.
local function surroundings()
  local cut, newer, newer_or_at = whole(mark(key, '::')), 0, 0
  if direction ~= 'first' then newer = redis.call('ZCOUNT', key, from, '+inf') end
  if direction == 'up' then newer_or_at = redis.call('ZCOUNT', key, math.max(tonumber(cursor), 1), '+inf') end
  return cut, newer, newer_or_at
end
local limit, ttl, most, known_only = tonumber(ARGV[3]), ARGV[4], tonumber(ARGV[5]), ARGV[8] == '1'
local existed = redis.call('EXPIRE', key, ttl)
local now = clock_ms()
local second = math.floor(now / 1000)

local function newest_first(a, b)
  if a[2] ~= b[2] then return a[2] > b[2] end
  return a[1] > b[1]
end
local function cut_down(entries)
  table.sort(entries, newest_first)
  for i = #entries, most + 1, -1 do entries[i] = nil end
end
-- Authors' marks below the score of what they published last come first: the difference is negative.
local function join(authors, pulled)
  local entries, floor = {}, 0
  local behind = redis.call('ZINTER', 2, authors, pulled, 'WEIGHTS', 1, -1, 'WITHSCORES')
  for i = 1, #behind, 2 do
    if tonumber(behind[i + 1]) >= 0 then break end
    local author = behind[i]
    local after = math.max(floor, tonumber(redis.call('ZSCORE', authors, author)))
    local fresh = redis.call('ZREVRANGEBYSCORE', ARGV[10] .. author, '+inf', '(' .. whole(after), 'WITHSCORES', 'LIMIT', 0, most)
    for j = 1, #fresh, 2 do entries[#entries + 1] = {fresh[j], tonumber(fresh[j + 1])} end
    if #entries > 2 * most then
      cut_down(entries)
      floor = entries[#entries][2]
    end
    redis.call('ZADD', authors, redis.call('ZSCORE', pulled, author), author)
  end
  cut_down(entries)
  local ids = {}
  for i = #entries, 1, -1 do ids[#ids + 1] = entries[i][1] end
  local _, is_new = push(key, ids, most, now)
  if is_new then redis.call('EXPIRE', key, ttl) end
end
if KEYS[3] then join(KEYS[3], KEYS[4]) end

local cut, newer, newer_or_at = surroundings()
local out, shown, looked_at, more, count = {}, 0, 0, 0, limit + 1
repeat
  local batch = look(count)
  for i = 1, #batch, 2 do
    local id = batch[i]
    local card =
      redis.call('HMGET', ARGV[9] .. id, 'published_at', 'title', 'url', 'author', 'tags', 'update_time', 'hidden', 'deleted')
    local dark = card[7] == '1' or (known_only and not card[1]) or (card[1] and tonumber(card[1]) > second)
    if not dark and shown == limit then
      more = 1
      break
    end
    looked_at = looked_at + 1
    if card[8] == '1' then redis.call('ZREM', key, id) end
    if not dark then
      shown = shown + 1
      out[shown + 6] = {id, batch[i + 1], card}
    end
  end
  local all = #batch < 2 * count
  from, count = '(' .. (batch[#batch] or cursor), 100
until all or more == 1

if ARGV[6] ~= '' and redis.call('ZADD', KEYS[2], second, ARGV[6]) == 1 then
  redis.call('ZREMRANGEBYRANK', KEYS[2], 0, -tonumber(ARGV[7]) - 1)
end
out[1], out[2], out[3], out[4], out[5], out[6] = existed, cut, newer, newer_or_at, looked_at, more
return out
