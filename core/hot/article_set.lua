-- Writes an article's counters as the caller computed them from those it read (compare and set by
-- version).
--
-- KEYS 1 hot:article:{id}  [2 hot:uv:hll:{id}, which is deleted]
-- ARGV 1 version that the caller read  2 number of fields to delete
--      3… those, then fields and values to set
-- Returns 1, or 0 if the article has another version (nothing is written).
--@include version
local article = KEYS[1]
if call('HGET', article, 'v') ~= ARGV[1] then return 0 end
local time, last_deleted = call('TIME'), 2 + ARGV[2]
call('HSET', article, 'v', version_after(ARGV[1], time), unpack(ARGV, last_deleted + 1))
if last_deleted > 2 then call('HDEL', article, unpack(ARGV, 3, last_deleted)) end
if KEYS[2] then call('DEL', KEYS[2]) end
return 1
