-- Gives the recorder's lease to who asks, unless another has it or Redis belongs to another database.
--
-- KEYS 1 recorder:lease
-- ARGV 1 who asks, in words  2 its process  3 the identity of its database  4 of the one whose place that takes, or ''
--      5 the highest token that the database knows  6 the token of a holder that is known to be gone, or 0  7 for how many ms
--      8 '1': only if Redis belongs to the one or the other already
-- Returns {token}, which is higher than any before; {0, holder, process, token} when another has it; {-1, who had it last} when Redis belongs
-- to another database.
--@include lease
local had = call('HMGET', KEYS[1], 'holder', 'process', 'token', 'database', 'till')
local last, database = had[3] or '0', had[4] or (ARGV[8] == '1' and 'none' or ARGV[3])
if database ~= ARGV[3] and database ~= ARGV[4] then return {-1, had[1] or ''} end
if tonumber(had[5] or 0) > now_ms() and last ~= ARGV[6] then return {0, had[1], had[2], tonumber(last)} end
local token = max(tonumber(last), tonumber(ARGV[5])) + 1
call('HSET', KEYS[1], 'holder', ARGV[1], 'process', ARGV[2], 'token', token, 'database', ARGV[3])
extend(KEYS[1], ARGV[7])
return {token}
