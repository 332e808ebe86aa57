-- Takes back a dismissal, unless it is of a later time than the undoing.
--
-- KEYS 1 user:not_interested:{reader}  2 user:not_interested:why:{reader}
-- ARGV 1 item  2 unix second
if (tonumber(call('ZSCORE', KEYS[1], ARGV[1])) or 0) > tonumber(ARGV[2]) then return end
call('ZREM', KEYS[1], ARGV[1])
call('HDEL', KEYS[2], ARGV[1])
