-- POST of views, cycling through all readers and all topics in fixed pseudo-random orders. Arguments: readers, topics.
package.path = os.getenv("BENCH_WRK_DIR") .. "/?.lua"
local common = require("common")
local head, readers, topics, at

function init(args)
  head = common.post_head()
  readers, topics, at = tonumber(args[1]), tonumber(args[2]), 0
end

function request()
  at = at + 1
  local text = ('{"userId":"u%d","topicId":"t%d"}'):format(at * 7919 % readers, at * 104729 % topics)
  return head .. #text .. "\r\n\r\n" .. text
end

function done(summary, latency)
  common.report(summary, latency)
end
