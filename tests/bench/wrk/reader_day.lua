-- The requests of readers' visits: five reports, a refresh, a load_more, a page of recommendations and one of a timeline. A
-- load_more is that of an earlier reader, whose refresh has been answered. Readers follow each other in a fixed
-- pseudo-random order. Articles follow Zipf's law.
-- Arguments: readers, items, and the paths of track, refresh, load_more, recommendations and timelines.
package.path = os.getenv("BENCH_WRK_DIR") .. "/?.lua"
local common = require("common")
local REQUESTS, REPORTS, LAG = 9, 5, 20
local readers, items, track, refresh, more, recommendations, timelines
local at = -1

function init(args)
  for name, value in pairs(common.headers) do wrk.headers[name] = value end
  readers, items = tonumber(args[1]), tonumber(args[2])
  track, refresh, more = common.post_head(args[3]), common.post_head(args[4]), common.post_head(args[5])
  recommendations, timelines = args[6] .. "?limit=20&userId=u", args[7] .. "?direction=first&limit=20&customerId=u"
  math.randomseed(6)
end

local function reader(visit) return visit * 7919 % readers end

local function report(visit)
  local text = ('{"articleId":"i%d","userId":"u%d","dwellMs":%d,"eventId":"e%d-%d"}'):format(
    math.floor(items ^ math.random()) - 1, reader(visit), math.random(1000, 180000), os.time(), at)
  return track .. #text .. "\r\n\r\n" .. text
end

local function page(head, action, visit)
  local text = ('{"action":"%s","limit":20,"agent_id":"u%d"}'):format(action, reader(visit))
  return head .. #text .. "\r\n\r\n" .. text
end

function request()
  at = at + 1
  local visit, kind = math.floor(at / REQUESTS), at % REQUESTS
  if kind < REPORTS then return report(visit) end
  if kind == REPORTS then return page(refresh, "refresh", visit) end
  if kind == REPORTS + 1 then return page(more, "load_more", math.max(visit - LAG, 0)) end
  if kind == REPORTS + 2 then return wrk.format("GET", recommendations .. reader(visit)) end
  return wrk.format("GET", timelines .. reader(visit))
end

function done(summary, latency)
  common.report(summary, latency)
end
