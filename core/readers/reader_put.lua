-- Adds interactions or dismissals of readers, each with its time; an entry with a later time stays as it is. Only the newest are kept. Interactions that
-- are pushed out, other than views, leave their item excluded: ten hex digits of its SHA-1 are appended to user:earlier (core/base/fingerprint.h).
-- Once that string is a tenth too long, duplicates and the oldest fingerprints are removed. Readers whose keys have a wrong type are skipped.
--
-- KEYS 1… user:interactions:{reader} and user:earlier:{reader} of each, alternating, by slot_or_zero()
--      ; or 1 user:not_interested:{reader}  2 user:not_interested:why:{reader}
-- ARGV 1 maximum members  2 TTL s  3 maximum fingerprints in user:earlier, '' for dismissals  4 s by which a TTL may fall short before it is renewed;
--      '': the TTL counts from the newest entry instead of from now (for restored data)
--      5… for each reader: number of entries, then unix second ('': now), member and reason ('': none) of each
-- Returns the number of new members, or the error of the last reader who was skipped.
--@include reader_put_entries
local from, added, failure = 6, 0
for k = 1, #KEYS, 2 do
  local to = from + 3 * ARGV[from - 1] - 1
  local written, new = pcall(put, KEYS[k], KEYS[k + 1], from, to)
  from = to + 2
  -- The error is that of Redis, as it is; Redis 7 makes a string of it.
  if written then added = added + new else failure = { err = type(new) == 'table' and new.err or new } end
end
return failure or added
