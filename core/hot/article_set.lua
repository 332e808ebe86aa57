-- Writes an article's counters as the caller computed them from those it read (compare and set by
-- version).
--
-- KEYS 1 hot:article:{id}  [2 hot:uv:hll:{id}, which is deleted]
-- ARGV 1 version that the caller read, '': none  2 TTL s that the hash must live at least, '': as before
--      3 number of fields to delete  4… those, then fields and values to set
-- Returns 1, or 0 if the article has another version (nothing is written).
--@include version
local article, version = KEYS[1], ARGV[1]
if (call('HGET', article, 'v') or '') ~= version then return 0 end
local time, last_deleted = call('TIME'), 3 + ARGV[3]
call('HSET', article, 'v', version_after(tonumber(version), time), unpack(ARGV, last_deleted + 1))
if last_deleted > 3 then call('HDEL', article, unpack(ARGV, 4, last_deleted)) end
if ARGV[2] ~= '' then
  if version ~= '' then call('EXPIRE', article, ARGV[2], 'GT') else call('EXPIRE', article, ARGV[2]) end
end
if KEYS[2] then call('DEL', KEYS[2]) end
return 1
