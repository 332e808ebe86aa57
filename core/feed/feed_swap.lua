-- Replaces a reader's buffer by new candidates and hands out the first page of them. When another refresh of the same query came first, or more pages
-- than are remembered, the buffer stays and the page comes from there.
--
-- KEYS and ARGV 1…8 as feed_take.lua, 7 always '0'
-- ARGV 9 generation, 10 handout_seq and 11 `noted` that the caller saw  12 1: recall has no more than these  13… candidates, best first
-- Returns as feed_take.lua, never 'empty'; {'again'} when more was handed out since the caller looked than is
-- remembered, and no buffer is left.
--@include feed_state
local changes, seen_seq = {}, tonumber(ARGV[10])
-- What was handed out since the caller looked; nil when that is more than is remembered.
local function handed_out()
  local out, pages = {}, 0
  local function look(page)
    if tonumber(page:match(' (%d+)') or 0) <= seen_seq then return end
    pages = pages + 1
    for id in string.gmatch(page:match('^%S+ %d+ %d+ %d+ %d+ %d %d(.*)$') or '', ':?([^ :]+)') do out[id] = true end
  end
  for slot = 1, 4 do
    if was[slot] then look(was[slot]) end
  end
  for page in late:gmatch('[^\n]+') do look(page) end
  return pages >= handout_seq - seen_seq and out or nil
end
local out = handout_seq > seen_seq and handed_out()
if out == nil or generation ~= ARGV[9] and of == query then
  if of == query then pop() end
  if out == nil and #items == 0 then return {'again'} end
else
  local candidates, first = ARGV, 13
  if out then
    candidates, first = {}, 1
    for i = 13, #ARGV do
      if not out[ARGV[i]] then candidates[#candidates + 1] = ARGV[i] end
    end
  end
  local last = min(first + limit - 1, #candidates)
  items = {unpack(candidates, first, last)}
  left = #candidates - last
  call('DEL', cache)
  for from = last + 1, #candidates, 1000 do
    call('RPUSH', cache, unpack(candidates, from, min(from + 999, #candidates)))
  end
  if left > 0 then call('EXPIRE', cache, ARGV[8]) end
  generation, sequence, done, known, of = max(now, generation + 1) .. '', 0, ARGV[12], ARGV[11], query
end
sequence = sequence + 1
local of_page = generation .. ' ' .. sequence
--@include feed_hand_out
