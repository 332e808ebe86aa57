-- Replaces a reader's buffer by new candidates and hands out the first page of them. When another refresh of the same query came first, or more pages
-- than are remembered, the buffer stays and the page comes from there.
--
-- KEYS and ARGV 1…8 as feed_take.lua, 7 always '0'
-- ARGV 9 generation, 10 handout_seq and 11 `noted` that the caller saw  12 1: recall has no more than the candidates
--      13 how many candidates  14… lines of these, best first, ids with blanks between
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
  left = tonumber(ARGV[13])
  local function forget(id)
    if out[id] then
      left = left - 1
      return ''
    end
  end
  for i = 14, out and #ARGV or 0 do ARGV[i] = ARGV[i]:gsub('(%S+) ?', forget) end
  call('DEL', cache)
  if left > 0 then
    call('RPUSH', cache, unpack(ARGV, 14))
    call('EXPIRE', cache, ARGV[8])
    pop()
  end
  generation, sequence, done, known, of = max(now, generation + 1) .. '', 0, ARGV[12], ARGV[11], query
end
sequence = sequence + 1
local of_page = generation .. ' ' .. sequence
--@include feed_hand_out
