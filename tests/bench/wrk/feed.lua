-- POST /api/feed, cycling through all readers in a fixed pseudo-random order. Arguments: action, limit, readers,
-- and optionally the prefix of their ids instead of u.
package.path = os.getenv("BENCH_WRK_DIR") .. "/?.lua"
local common = require("common")
local head, body, readers, at

function init(args)
  head = common.post_head()
  body = '{"action":"' .. args[1] .. '","limit":' .. args[2] .. ',"agent_id":"' .. (args[4] or "u") .. '%d"}'
  readers, at = tonumber(args[3]), 0
end

function request()
  at = (at + 7919) % readers
  local text = body:format(at)
  return head .. #text .. "\r\n\r\n" .. text
end

function done(summary, latency)
  common.report(summary, latency)
end
