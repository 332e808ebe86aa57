-- Appends counts of views to the stream (view_count_buffer.h), unless too many entries wait for the
-- recorder or no recorder has created the stream yet.
--
-- KEYS 1 recorder:stream
-- ARGV 1 how many entries may wait  2 the counts
if call('XLEN', KEYS[1]) >= ARGV[1] + 0 then return 0 end
call('XADD', KEYS[1], 'NOMKSTREAM', '*', 'op', 'counts', 'views', ARGV[2])
return 1
