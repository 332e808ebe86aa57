-- The field `increments` of an article's hash: what its views added to `total`, and when, while only
-- clients have dated the article. The site's first date recomputes the accumulated score from it and
-- removes it.
--
-- At most 32 buckets (3 while the article is unverified), 640 bytes. They are disjoint and ordered
-- by time. A bucket has 20 bytes, little-endian: the sum of its increments (f64), the unix s of the
-- first and last of them (u32 each), and their mean time in s after the first (f32). Increments of
-- one minute share a bucket; when there are too many, two neighbors are merged. The increments of a
-- bucket are taken to be spread evenly between first and mean, and between mean and last, in the
-- proportion that gives that mean.
--
-- Error of a recomputed score, with f(h) = (h + base)^-gamma, for a bucket that begins at age h and
-- is w long, x = w / (h + base):
-- - A date outside the bucket. f is convex, so both the exact and the computed contribution lie
--   between f(mean) and the chord from f(first) to f(last). These differ by at most
--   gamma (gamma + 1) / 8 · x² of the contribution, about 0.5 x² for gamma = 1.5.
-- - A date inside the bucket. The error is at most the bucket's sum, divided by that of all
--   increments up to it, since earlier ones count in full.
-- A pair's cost is the greatest of three values, and the pair with the lowest cost is merged: share ·
-- x² for a date at the first view; the same for an earlier date, for which late views have a larger
-- share; and the second bound. From two hours to a hundred days, 32 buckets of equal x have x = 0.2,
-- so their widths double with every third or fourth one, and the first bound is 2 %; in simulations
-- the error was half of that. The second bound gives 2 % for views of one day and 5 % for those of ten (tests/hot/increments_test.cpp).
-- A date inside one of several bursts over months is the worst: 10 % in a simulation.
--
-- join_newest() handles most views of a busy article. increments_library() returns add_increment() and redate(). They are created only when a script
-- needs them: six functions would cost every call half a microsecond.

-- Adds an increment to the newest bucket of the field's text. Returns the text, or nil if it does not
-- belong to that bucket.
local function join_newest(text, time, weight)
  local sum, first, last, mean = struct.unpack('<dI4I4f', text, #text - 19)
  if time < first or (time > last and time - first >= 60) then return nil end
  sum = sum + weight
  return text:sub(1, -21) .. struct.pack('<dI4I4f', sum, first, max(last, time), mean + (time - first - mean) * weight / sum)
end

local function increments_library()
  local function unpack_buckets(text)
    local buckets = {}
    for at = 1, #text, 20 do
      local weight, first, last, mean = struct.unpack('<dI4I4f', text, at)
      buckets[#buckets + 1] = {weight = weight, first = first, last = last, mean = mean}
    end
    return buckets
  end
  local function pack_bucket(b) return struct.pack('<dI4I4f', b.weight, b.first, b.last, b.mean) end

  -- Merges the two neighbors whose merging can change a score the least. `base`: in seconds.
  local function merge_neighbors(buckets, base, gamma)
    local birth, before, cheapest, at = buckets[1].first, 0, math.huge, 1
    -- The dates: the first view, and a time before it by a third of the span of all views.
    local offsets = {base, base + (buckets[#buckets].last - birth) / 3}
    local shares = {{}, {}}
    for d, offset in ipairs(offsets) do
      local score = 0
      for i, b in ipairs(buckets) do
        shares[d][i] = b.weight * (b.first + b.mean - birth + offset) ^ -gamma
        score = score + shares[d][i]
      end
      for i = 1, #buckets do shares[d][i] = shares[d][i] / score end
    end
    for i = 1, #buckets - 1 do
      local a, b = buckets[i], buckets[i + 1]
      local width, weight = b.last - a.first, a.weight + b.weight
      local cost = 0.3 * weight / (before + weight) * min(1, width / base) ^ 2  -- for a date inside
      for d, offset in ipairs(offsets) do
        cost = max(cost, (shares[d][i] + shares[d][i + 1]) * (width / (a.first - birth + offset)) ^ 2)
      end
      if cost < cheapest then cheapest, at = cost, i end
      before = before + a.weight
    end
    local a, b = buckets[at], table.remove(buckets, at + 1)
    local weight = a.weight + b.weight
    a.mean = a.mean + (b.first + b.mean - a.first - a.mean) * b.weight / weight
    a.weight, a.last = weight, b.last
  end

  -- Adds an increment to the field's text, in at most `max_buckets` buckets.
  local function add_increment(text, time, weight, max_buckets, base, gamma)
    local one = {weight = weight, first = time, last = time, mean = 0}
    local function joins(b)
      if time < b.first or (time > b.last and time - b.first >= 60) then return false end
      b.weight, b.last = b.weight + weight, max(b.last, time)
      b.mean = b.mean + (time - b.first - b.mean) * weight / b.weight
      return true
    end
    local joined = text ~= '' and join_newest(text, time, weight)
    if joined then return joined end
    local newest = text ~= '' and unpack_buckets(text:sub(-20))[1]
    if (not newest or time > newest.last) and #text < 20 * max_buckets then return text .. pack_bucket(one) end
    local buckets = unpack_buckets(text)
    local at = #buckets
    while at > 0 and buckets[at].first > time do at = at - 1 end
    if at == 0 or not joins(buckets[at]) then
      table.insert(buckets, at + 1, one)
      if #buckets > max_buckets then merge_neighbors(buckets, base, gamma) end
    end
    for i, b in ipairs(buckets) do buckets[i] = pack_bucket(b) end
    return table.concat(buckets)
  end

  -- The score that these increments have if the article was published at `date`. `base_hours`: as in
  -- view.lua.
  local function score_of_increments(text, date, base_hours, gamma)
    local function integral(hours)
      if gamma == 1 then return math.log(hours + base_hours) end
      return (hours + base_hours) ^ (1 - gamma) / (1 - gamma)
    end
    -- The mean of (hours + base) ^ -gamma between two ages; before the date the age is 0.
    local function mean_decay(from, to)
      local a, z = max(0, from), max(0, to)
      if z - a < 0.01 then
        local at_date, between = base_hours ^ -gamma, ((a + z) / 2 + base_hours) ^ -gamma
        if from >= 0 or to <= from then return between end
        return (at_date * (a - from) + between * (to - a)) / (to - from)
      end
      return ((a - from) * base_hours ^ -gamma + integral(z) - integral(a)) / (to - from)
    end
    local score = 0
    for _, b in ipairs(unpack_buckets(text)) do
      local from = (b.first - date) / 3600
      local mean, to = from + b.mean / 3600, (b.last - date) / 3600
      local early = b.last > b.first and (to - mean) / (to - from) or 1
      score = score + b.weight * (early * mean_decay(from, mean) + (1 - early) * mean_decay(mean, to))
    end
    return score
  end

  -- Called when a publish time replaces a client's. Recomputes the score and notes the earlier date
  -- for reverts (contributions.cpp), 'several' after more than one. Drops the increments, unless the
  -- date is a client's again (`keep`). Returns the score; nil if it stays as it is.
  local function redate(article, increments, client_date, date, clock, base_hours, gamma, keep)
    if not increments then return nil end
    if not keep then call('HDEL', article, 'increments') end
    if date == client_date then return nil end
    local score = score_of_increments(increments, date, base_hours, gamma)
    local is_first = not call('HGET', article, 'redated')
    call('HSET', article, 'score', format('%.17g', score), 'redated', is_first and format('%d %d', client_date, clock) or 'several')
    return score
  end
  return add_increment, redate
end
