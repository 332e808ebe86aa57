-- GET of recommendations, cycling through all readers in a fixed pseudo-random order. Arguments: readers.
package.path = os.getenv("BENCH_WRK_DIR") .. "/?.lua"
local common = require("common")

local readers, at, path

function init(args)
  for name, value in pairs(common.headers) do wrk.headers[name] = value end
  readers, at, path = tonumber(args[1]), 0, wrk.path .. "?limit=20&userId=u"
end

function request()
  at = (at + 7919) % readers
  return wrk.format("GET", path .. at)
end

function done(summary, latency)
  common.report(summary, latency)
end
