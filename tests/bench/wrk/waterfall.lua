-- GET of a timeline's page, cycling through all readers in a fixed pseudo-random order.
-- Arguments: direction, cursor, limit, readers.
package.path = os.getenv("BENCH_WRK_DIR") .. "/?.lua"
local common = require("common")

local readers, at, path

function init(args)
  for name, value in pairs(common.headers) do wrk.headers[name] = value end
  readers, at = tonumber(args[4]), 0
  path = ("%s?direction=%s&score=%s&limit=%s&customerId=u"):format(wrk.path, args[1], args[2], args[3])
end

function request()
  at = (at + 7919) % readers
  return wrk.format("GET", path .. at)
end

function done(summary, latency)
  common.report(summary, latency)
end
