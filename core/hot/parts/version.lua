-- The version of an article that had `v`, or none, before: it only grows, also when counters begin anew.
local function version_after(v, time) return format('%d', max((v or 0) + 1, time[1] * 1000000 + time[2])) end
