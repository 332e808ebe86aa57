-- POST of one view each of articles a<from>, a<from+1> and so on: fills a store through its own front door.
-- Arguments: from.
package.path = os.getenv("BENCH_WRK_DIR") .. "/?.lua"
local common = require("common")
local head, article

function init(args)
  head = common.post_head()
  article = tonumber(args[1]) - 1  -- wrk calls request() once before it starts
end

function request()
  local body = string.format('{"articleId":"a%d","userId":"u%d","dwellMs":60000}', article, article % 100000)
  article = article + 1
  return head .. #body .. "\r\n\r\n" .. body
end

function done(summary, latency)
  common.report(summary, latency)
end
