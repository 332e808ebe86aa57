-- Adds what readers read to their interests (as reader_put.lua) and their histories of topics (as reader_view.lua). Readers whose keys have a wrong
-- type are skipped.
--
-- KEYS 1… user:interactions:{reader}, user:earlier:{reader}, user:views:topic:{reader}, user:views:at:{reader}, feed:state:{reader},
--      alternating, by slot_or_zero()
-- ARGV 1–4 as in reader_put.lua  5 maximum items of a history  6 its TTL s
--      7… for each reader: number of interests, then '', member and '' of each; number of views, then item and time of each
-- Returns the pairs of items that a reader viewed one after the other (reader_add_view.lua), alternating; or the error of the last reader who was skipped.
--@include reader_put_entries
--@include reader_add_view
local from, pairs_viewed, failure = 7, {}
for k = 1, #KEYS, 5 do
  local to = from + 3 * ARGV[from]
  local views = to + 2
  local next_from = views + 2 * ARGV[views - 1]
  local written, err = pcall(function()
    if to > from then put(KEYS[k], KEYS[k + 1], from + 1, to) end
    for i = views, next_from - 1, 2 do
      local _, before =
        add_view(KEYS[k + 2], KEYS[k + 3], KEYS[k + 4], ARGV[i], 't', tonumber(ARGV[5]), ARGV[6], min(tonumber(ARGV[i + 1]), clock), 0, clock)
      if before then pairs_viewed[#pairs_viewed + 1], pairs_viewed[#pairs_viewed + 2] = before, ARGV[i] end
    end
  end)
  from = next_from
  -- The error is that of Redis, as it is; Redis 7 makes a string of it.
  if not written then failure = { err = type(err) == 'table' and err.err or err } end
end
return failure or pairs_viewed
