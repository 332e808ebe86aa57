-- Acknowledges deliveries whose impressions are in the seen filter.
--
-- KEYS 1 feed:state:{reader}
-- ARGV 1 TTL s once nothing is unacknowledged  2 the time, ms  3 number of a delivery and 4 its items: '=' if the whole page was shown, else those that
--      were, each after a U+001F; further pairs likewise. Items that were not shown are released and may be delivered again. Items shown only in a replay are not recorded yet, so the page
--      stays unacknowledged with these.
-- Returns the number of pages that were acknowledged.
local fields = call('HMGET', KEYS[1], '0', '1', '2', '3', 'late')
local changes, pages, late = {}, 0, fields[5] or ''
-- The page after its acknowledgement; nil if it is not this delivery.
local function acknowledge(page, seq, shown)
  local key, numbers, items = page:match('^0(=[^\031]*\031' .. seq .. '\031)%d+(\031%d+\031%d+\031%d\031%d)(.*)$')
  if not key then return nil end
  local replayed = ''
  if shown ~= '=' then
    for id in items:gmatch('\031\030([^\031]+)') do
      if not string.find(shown .. '\031', '\031' .. id .. '\031', 1, true) then replayed = replayed .. '\031\030' .. id end
    end
    items = shown .. replayed
  end
  if replayed == '' then pages = pages + 1 end
  return (replayed == '' and '1' or '0') .. key .. ARGV[2] .. numbers .. items
end
for i = 3, #ARGV, 2 do
  local seq, shown = ARGV[i], ARGV[i + 1]
  local slot = seq % 4 + 1
  local page = acknowledge(fields[slot] or '', seq, shown)
  if page then
    fields[slot] = page
    changes[#changes + 1], changes[#changes + 2] = slot - 1, page
  elseif late ~= '' then
    local rest = ''
    for line in late:gmatch('[^\n]+') do
      line = acknowledge(line, seq, shown) or line
      if line:byte() ~= 49 then rest = rest .. line .. '\n' end
    end
    if rest ~= late then
      late = rest
      changes[#changes + 1], changes[#changes + 2] = 'late', late
    end
  end
end
if #changes == 0 then return 0 end
call('HSET', KEYS[1], unpack(changes))
for slot = 1, 4 do
  if fields[slot] and fields[slot]:byte() == 48 then return pages end
end
if late == '' then call('EXPIRE', KEYS[1], ARGV[1]) end
return pages
