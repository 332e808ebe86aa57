-- Next version of an article with version `v` (or none). It only increases, also when the counters
-- start over.
local function version_after(v, time) return format('%d', max((v or 0) + 1, time[1] * 1000000 + time[2])) end
