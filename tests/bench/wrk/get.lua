-- GET of the URL, as a browser asks.
package.path = os.getenv("BENCH_WRK_DIR") .. "/?.lua"
local common = require("common")

for name, value in pairs(common.headers) do
  wrk.headers[name] = value
end

function done(summary, latency)
  common.report(summary, latency)
end
