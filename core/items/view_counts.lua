-- Appends counts of views and of pairs to the stream (view_count_buffer.h), unless too many entries wait for the
-- recorder or no recorder has created the stream yet.
--
-- KEYS 1 recorder:stream
-- ARGV 1 how many entries may wait  2 the counts of views  3 those of pairs; either may be empty
if call('XLEN', KEYS[1]) >= ARGV[1] + 0 then return 0 end
local fields = {'op', 'counts'}
if ARGV[2] ~= '' then fields[3], fields[4] = 'views', ARGV[2] end
if ARGV[3] ~= '' then fields[#fields + 1], fields[#fields + 2] = 'covisits', ARGV[3] end
call('XADD', KEYS[1], 'NOMKSTREAM', '*', unpack(fields))
return 1
