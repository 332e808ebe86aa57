-- POST of the lines of a file, starting again at its end. Arguments: the file.
-- All requests are built before the run, so request() only returns them.
package.path = os.getenv("BENCH_WRK_DIR") .. "/?.lua"
local common = require("common")
local requests, index = {}, 0

function init(args)
  local head = common.post_head()
  for body in io.lines(args[1]) do
    requests[#requests + 1] = head .. #body .. "\r\n\r\n" .. body
  end
end

function request()
  index = index % #requests + 1
  return requests[index]
end

function done(summary, latency)
  common.report(summary, latency)
end
