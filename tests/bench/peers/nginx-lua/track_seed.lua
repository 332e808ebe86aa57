-- The original service (design source 001) without FastCGI.
local track = require("track")
local body = track.report()
local reply = track.call(bench.seed_sha, 0, ngx.time(), body.articleId, body.userId, body.dwellMs, 86400)
track.answer({ pv = reply[1], uv = reply[2], avg_dwell_ms = reply[3], score = reply[4] })
