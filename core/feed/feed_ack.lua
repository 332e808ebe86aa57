-- The seen-filter has what was handed out.
--
-- KEYS 1 feed:state:{reader}
-- ARGV 1 TTL s when nothing waits any more  2 number of a handout and 3 items, '=' when all of the page was shown, else what was; further pairs
--      likewise. What was not shown is forgotten and may come again. What was only by who asked for the page again is not recorded: the page waits with it.
-- Returns how many pages were acknowledged.
--@include clock
local was = call('HMGET', KEYS[1], '0', '1', '2', '3', 'late')
local changes, pages, late = {}, 0, was[5] or ''
local now = now_ms()
-- The page as it is from now on, nil when it is another one.
local function settle(page, seq, shown)
  local request, numbers, items = page:match('^0(=%S* ' .. seq .. ' )%d+( %d+ %d+ %d %d)(.*)$')
  if not request then return nil end
  local again = ''
  if shown ~= '=' then
    for id in items:gmatch(' :(%S+)') do
      if not string.find(shown .. ' ', ' ' .. id .. ' ', 1, true) then again = again .. ' :' .. id end
    end
    items = shown .. again
  end
  if again == '' then pages = pages + 1 end
  return (again == '' and '1' or '0') .. request .. now .. numbers .. items
end
for i = 2, #ARGV, 2 do
  local seq, shown = ARGV[i], ARGV[i + 1]
  local slot = seq % 4 + 1
  local page = settle(was[slot] or '', seq, shown)
  if page then
    was[slot] = page
    changes[#changes + 1], changes[#changes + 2] = slot - 1, page
  elseif late ~= '' then
    local rest = ''
    for line in late:gmatch('[^\n]+') do
      line = settle(line, seq, shown) or line
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
  if was[slot] and was[slot]:byte() == 48 then return pages end
end
if late == '' then call('EXPIRE', KEYS[1], ARGV[1]) end
return pages
