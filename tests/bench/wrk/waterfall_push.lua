-- POST of one new item to several readers, cycling through groups of readers.
-- Arguments: readers per push, readers in all.
package.path = os.getenv("BENCH_WRK_DIR") .. "/?.lua"
local common = require("common")
local head, groups, at = nil, {}, 0

function init(args)
  head = common.post_head()
  local per_push, total = tonumber(args[1]), tonumber(args[2])
  for first = 0, total - per_push, per_push do
    local names = {}
    for reader = first, first + per_push - 1 do names[#names + 1] = ('"u%d"'):format(reader) end
    groups[#groups + 1] = table.concat(names, ",")
  end
end

function request()
  at = at + 1
  local text = ('{"items":["n%d"],"customers":[%s]}'):format(at, groups[(at - 1) % #groups + 1])
  return head .. #text .. "\r\n\r\n" .. text
end

function done(summary, latency)
  common.report(summary, latency)
end
