-- Removes a dismissal unless it is newer than the undo.
--
-- KEYS 1 user:not_interested:{reader}  2 user:not_interested:why:{reader}
-- ARGV 1 item  2 unix second of the undo
if (tonumber(call('ZSCORE', KEYS[1], ARGV[1])) or 0) > tonumber(ARGV[2]) then return end
call('ZREM', KEYS[1], ARGV[1])
call('HDEL', KEYS[2], ARGV[1])
