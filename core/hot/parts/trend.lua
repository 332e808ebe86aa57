-- The field `trend` of an article's hash: for each half-life of core/hot/trending.h the log2 of its
-- views, each halved with every half-life since it was counted, plus now / half-life, which makes it
-- independent of `now`. Five doubles, little-endian.
local log, per_log2 = math.log, 1.4426950408889634

-- Adds a view at `time`. The first view also adds `birth` views dated at publication.
--
-- trend: the field, or nil  views: counted views of the article, with this one
-- published: publish time, not in the future
-- Returns the field.
--
-- No sum exceeds what all views would add at `clock`, so that views counted while the clock was ahead
-- lose their lead once it is right again. Five calls cost a third of a loop over tables.
local function trend_after(trend, time, clock, views, birth, published)
  local most, entry = log(views + birth) * per_log2, birth > 0 and log(birth) * per_log2
  local function add(sum, half_life)
    local key, limit = time / half_life, clock / half_life + most
    if not sum then sum = entry and published / half_life + entry or -math.huge end
    if sum < key then sum, key = key, sum end
    sum = sum + log(1 + 2 ^ (key - sum)) * per_log2
    return sum < limit and sum or limit
  end
  local a, b, c, d, e
  if trend then a, b, c, d, e = struct.unpack('<ddddd', trend) end
  return struct.pack('<ddddd', add(a, 300), add(b, 900), add(c, 3600), add(d, 21600), add(e, 86400))
end
