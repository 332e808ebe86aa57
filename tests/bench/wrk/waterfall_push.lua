-- POST of one new item to so many readers, the next ones of all in turn. Arguments: readers of a push, readers in all.
package.path = os.getenv("BENCH_WRK_DIR") .. "/?.lua"
local common = require("common")
local head, groups, at = nil, {}, 0

function init(args)
  head = common.post_head()
  local most, all = tonumber(args[1]), tonumber(args[2])
  for first = 0, all - most, most do
    local names = {}
    for reader = first, first + most - 1 do names[#names + 1] = ('"u%d"'):format(reader) end
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
