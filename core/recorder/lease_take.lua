-- Acquires the recorder's lease, unless another process holds it or Redis belongs to another
-- database.
--
-- KEYS 1 recorder:lease
-- ARGV 1 caller's name  2 its process  3 identity of its database
--      4 identity of the database that this one replaces, or ''
--      5 highest token in the database  6 token of a holder known to be dead, or 0
--      7 lifetime in ms
--      8 '1': only if Redis already belongs to one of the two databases
-- Returns {token}, which is higher than any before;
--      {0, holder, process, token} if another process holds the lease;
--      {-1, last holder} if Redis belongs to another database.
--@include lease
local lease = call('HMGET', KEYS[1], 'holder', 'process', 'token', 'database', 'till')
local last, database = lease[3] or '0', lease[4] or (ARGV[8] == '1' and 'none' or ARGV[3])
if database ~= ARGV[3] and database ~= ARGV[4] then return {-1, lease[1] or ''} end
if tonumber(lease[5] or 0) > now_ms() and last ~= ARGV[6] then return {0, lease[1], lease[2], tonumber(last)} end
local token = max(tonumber(last), tonumber(ARGV[5])) + 1
call('HSET', KEYS[1], 'holder', ARGV[1], 'process', ARGV[2], 'token', token, 'database', ARGV[3])
extend(KEYS[1], ARGV[7])
return {token}
