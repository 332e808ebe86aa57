-- GET of the URL with a browser's headers.
package.path = os.getenv("BENCH_WRK_DIR") .. "/?.lua"
local common = require("common")

for name, value in pairs(common.headers) do
  wrk.headers[name] = value
end

function done(summary, latency)
  common.report(summary, latency)
end
