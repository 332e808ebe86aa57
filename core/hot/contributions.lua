-- Records visitors' contributions to articles' counters (core/hot/contributions.h). A batch that
-- arrives twice, as when its reply was lost, is recorded once: the first visitor's field "batches"
-- holds the names of the last batches. A visitor whose key has another type is skipped.
--
-- KEYS 1… hot:added:{visitor} of each, by slot_or_zero()
-- ARGV 1 TTL s  2 the batch's name, 8 bytes  then for each visitor: the network or ''
--      number of articles  and for each article: id  'pv uv dwell_ms views first_views views_score
--      first_version', and the five sums of parts/trend.lua if a view counted
-- Returns 1, or 0 for a batch that was recorded before.
--
-- Field a:{id} holds the totals of these numbers, in the same order; of the versions the first, and the
-- last five are logarithms. Each new article renews the TTL.
local first = KEYS[1]
local batches = redis.pcall('HGET', first, 'batches')
if type(batches) == 'string' then
  for at = 1, #batches, 8 do
    if batches:sub(at, at + 7) == ARGV[2] then return 0 end
  end
end

-- Adds two texts of numbers, of which either may lack the logarithms.
local function total(a, b)
  local sums, a_numbers, b_numbers = {}, a:gmatch('%S+'), b:gmatch('%S+')
  local x, y = a_numbers(), b_numbers()
  while x or y do
    local sum = (x or 0) + (y or 0)
    if #sums >= 6 and x and y then
      local high, low = max(x + 0, y + 0), min(x + 0, y + 0)
      sum = #sums == 6 and low or high + math.log(1 + 2 ^ (low - high)) / math.log(2)
    end
    sums[#sums + 1] = format('%.17g', sum)
    x, y = a_numbers(), b_numbers()
  end
  return table.concat(sums, ' ')
end

local function record(key, at, articles)
  local fields = {}
  for i = 1, articles do fields[i] = 'a:' .. ARGV[at + 2 * i] end
  local earlier, changes, is_new = call('HMGET', key, unpack(fields)), {}, false
  if ARGV[at] ~= '' then changes = {'network', ARGV[at]} end
  for i, field in ipairs(fields) do
    changes[#changes + 1], changes[#changes + 2] = field, total(earlier[i] or '', ARGV[at + 2 * i + 1])
    is_new = is_new or not earlier[i]
  end
  call('HSET', key, unpack(changes))
  if is_new then call('EXPIRE', key, ARGV[1]) end
end

local at = 3
for _, key in ipairs(KEYS) do
  local articles = tonumber(ARGV[at + 1])
  pcall(record, key, at, articles)
  at = at + 2 + 2 * articles
end
if type(batches) ~= 'table' then call('HSET', first, 'batches', ((batches or '') .. ARGV[2]):sub(-128)) end
return 1
