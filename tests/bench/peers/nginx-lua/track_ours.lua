-- Freshet's earlier script without FastCGI, with the keys and arguments that Freshet passed with default settings.
local track = require("track")
local body = track.report()
local id, reader = body.articleId, body.userId
local reply = track.call(bench.ours_sha, 10,
  "hot:pv:" .. id, "hot:uv:hll:" .. id, "hot:dwell:sum:" .. id, "hot:dwell:cnt:" .. id, "hot:first_ts:" .. id,
  "item:" .. id, "hot:session:" .. id .. ":" .. reader, "hot:rank", "hot:published", "hot:added:" .. reader,
  id, reader, math.min(body.dwellMs, 180000), "", "", 0, 1800, 2592000, "1 3 0.002 0 0 86400", 180000,
  "-29.897352853986263", 1000000, 0, "", 86400, 0, 0)
local pv, uv, mean, score = reply:match("^(%S+) (%S+) (%S+) (%S+)$")
track.answer({ pv = tonumber(pv), uv = tonumber(uv), avg_dwell_ms = tonumber(mean), score = tonumber(score) })
