-- Appends impressions to a shard of a day's seen-filter, which is never made without its end.
--
-- KEYS 1 bf:global:{day}:{shard}
-- ARGV 1 unix second at which the day is forgotten  2 most bytes of a shard  3 fingerprints
-- Returns the shard's length; 0 when the day is forgotten, -1 when the shard is full: nothing was added then.
if tonumber(call('TIME')[1]) >= tonumber(ARGV[1]) then return 0 end
if call('STRLEN', KEYS[1]) >= tonumber(ARGV[2]) then return -1 end
local length = call('APPEND', KEYS[1], ARGV[3])
call('EXPIREAT', KEYS[1], ARGV[1])
return length
