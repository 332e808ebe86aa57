-- Replaces a reader's buffer with new candidates and delivers the first page of it. If another
-- refresh of the same query came first, or more pages have been delivered since than are
-- remembered, the buffer stays and the page comes from it.
--
-- KEYS and ARGV 1…8 as feed_next.lua, 7 always '0'
-- ARGV 9 generation, 10 delivery_seq and 11 `noted` as loaded by the caller  12 '1' if recall has no further candidates
--      13 number of candidates  14… lines of candidates, best first, ids separated by U+001F
-- Returns as feed_next.lua, but never 'empty'; {'again'} if more pages were delivered since the
-- caller loaded the state than are remembered, and the buffer is empty.
--@include feed_state
local changes, loaded_seq = {}, tonumber(ARGV[10])
-- Items delivered since the caller loaded the state; nil if more pages were delivered than are remembered.
local function delivered_since()
  local out, pages = {}, 0
  local function add(page)
    if tonumber(page:match('\031(%d+)') or 0) <= loaded_seq then return end
    pages = pages + 1
    for id in string.gmatch(page:match('^[^\031]+\031%d+\031%d+\031%d+\031%d+\031%d\031%d(.*)$') or '', '\030?([^\031\030]+)') do out[id] = true end
  end
  for slot = 1, 4 do
    if fields[slot] then add(fields[slot]) end
  end
  for page in late:gmatch('[^\n]+') do add(page) end
  return pages >= delivery_seq - loaded_seq and out or nil
end
local delivered = delivery_seq > loaded_seq and delivered_since()
if delivered == nil or generation ~= ARGV[9] and buffer_query == query then
  if buffer_query == query then pop() end
  if delivered == nil and #items == 0 then return {'again'} end
else
  remaining = tonumber(ARGV[13])
  local function drop_delivered(id)
    if delivered[id] then
      remaining = remaining - 1
      return ''
    end
  end
  for i = 14, delivered and #ARGV or 0 do ARGV[i] = ARGV[i]:gsub('([^\031]+)\031?', drop_delivered) end
  call('DEL', cache)
  if remaining > 0 then
    call('RPUSH', cache, unpack(ARGV, 14))
    call('EXPIRE', cache, ARGV[8])
    pop()
  end
  generation, sequence, exhausted, noted_at_fill, buffer_query = max(now, generation + 1) .. '', 0, ARGV[12], ARGV[11], query
end
sequence = sequence + 1
local page_id = generation .. '\031' .. sequence
--@include feed_deliver
