-- Adds impressions of one reader to a shard of a day's seen-filter; what the bytes mean stands in core/feed/seen_layout.h.
--
-- KEYS 1 bf:global:{day}:{shard}
-- ARGV 1 unix second at which the day is forgotten  2 bytes of a fingerprint  3 most bytes of a shard
--      4 the impressions, ascending, at most 255: bucket (1 byte) and fingerprint each
-- Returns how many were new: 0 when all were known, when the day is forgotten, and when the shard is full.
local ends, width, add = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[4]
if tonumber(redis.call('TIME')[1]) >= ends then return 0 end
local empty = string.rep('\0', 64)
local old = redis.call('GET', KEYS[1]) or string.char(width) .. empty
if #old > tonumber(ARGV[3]) then return 0 end

-- The last table: the others are closed.
local from, counts = 2, nil
while true do
  counts = {string.byte(old, from, from + 63)}
  local entries = 0
  for bucket = 1, 64 do entries = entries + counts[bucket] end
  local behind = from + 64 + width * entries
  if behind > #old then break end
  from = behind
end

-- New ones go to the front of their bucket. What lies between them is copied as it is.
local out, size, new = {string.sub(old, 1, from - 1), ''}, 2, 0
local at, copied, bucket, count = from + 64, from + 64, 1, counts[1]
local next_counts, next_table = nil, {}
for i = 1, #add, width + 1 do
  local wanted, print = string.byte(add, i) + 1, string.sub(add, i + 1, i + width)
  while bucket < wanted do
    at = at + width * count
    bucket = bucket + 1
    count = counts[bucket]
  end
  -- The bucket alone: a search of the whole shard would be long in a large one.
  local prints = string.sub(old, at, at + width * count - 1)
  local found = string.find(prints, print, 1, true)
  while found and (found - 1) % width > 0 do found = string.find(prints, print, found + 1, true) end
  if not found then
    new = new + 1
    if counts[bucket] < 255 then
      counts[bucket] = counts[bucket] + 1
      out[size + 1], out[size + 2] = string.sub(old, copied, at - 1), print
      size, copied = size + 2, at
    else
      next_counts = next_counts or {string.byte(empty, 1, 64)}
      next_counts[bucket] = next_counts[bucket] + 1
      next_table[#next_table + 1] = print
    end
  end
end
if new == 0 then return 0 end
out[2] = string.char(unpack(counts))
out[size + 1] = string.sub(old, copied)
if next_counts then out[size + 2] = string.char(unpack(next_counts)) .. table.concat(next_table) end
redis.call('SET', KEYS[1], table.concat(out), 'EXAT', ends)
return new
