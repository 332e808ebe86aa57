-- The newest `most` items of a history, each once: another program may have written the list, and repeats pushed others
-- behind the first `most` elements. Looks at four times as many at the most.
local function distinct_views(list, most)
  local out, known = {}, {}
  for _, item in ipairs(redis.call('LRANGE', list, 0, 4 * most - 1)) do
    if not known[item] and #out < most then
      known[item] = true
      out[#out + 1] = item
    end
  end
  return out
end
