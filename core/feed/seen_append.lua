-- Appends impressions to a shard of a day's seen filter. Never creates a shard without an expiry.
--
-- KEYS 1 bf:global:{day}:{shard}
-- ARGV 1 unix second at which the day expires  2 maximum bytes of a shard  3 fingerprints
-- Returns the shard's length. If nothing was added: 0 if the day has expired, -1 if the shard is full.
if tonumber(call('TIME')[1]) >= tonumber(ARGV[1]) then return 0 end
if call('STRLEN', KEYS[1]) >= tonumber(ARGV[2]) then return -1 end
local length = call('APPEND', KEYS[1], ARGV[3])
call('EXPIREAT', KEYS[1], ARGV[1])
return length
