-- Fills a store over HTTP: POST of one view for each of the articles a<from>, a<from+1> … a<last>, then from a1 again.
-- Arguments: from, last.
package.path = os.getenv("BENCH_WRK_DIR") .. "/?.lua"
local common = require("common")
local head, article, last

function init(args)
  head = common.post_head()
  last = tonumber(args[2])
  article = tonumber(args[1]) - 1  -- wrk calls request() once before the run
end

function request()
  local body = string.format('{"articleId":"a%d","userId":"u%d","dwellMs":60000}', article, article % 100000)
  article = article < last and article + 1 or 1
  return head .. #body .. "\r\n\r\n" .. body
end

function done(summary, latency)
  common.report(summary, latency)
end
