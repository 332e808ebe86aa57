-- Shared by both track scripts: decodes the body, and runs a script over a pooled connection to Redis.
local cjson = require("cjson.safe")
local redis = require("nginx.redis")

local track = {}
local idle_ms, pool_size = 60000, 256

local function fail(status, code)
  ngx.status = status
  ngx.say('{"code":"' .. code .. '"}')
  ngx.exit(status)
end

-- Returns the body's members, validated as in the service.
function track.report()
  ngx.req.read_body()
  local body = cjson.decode(ngx.req.get_body_data() or "")
  if type(body) ~= "table" or type(body.articleId) ~= "string" or type(body.userId) ~= "string"
    or type(body.dwellMs) ~= "number" or body.dwellMs < 0 then
    return fail(400, "invalid")
  end
  return body
end

-- Runs a loaded script: EVALSHA sha keys …
function track.call(...)
  local client = redis:new()
  client:set_timeout(1000)
  local ok = client:connect(bench.redis_socket)
  local reply = ok and client:evalsha(...)
  if not reply then
    return fail(503, "unavailable")
  end
  client:set_keepalive(idle_ms, pool_size)
  return reply
end

function track.answer(members)
  ngx.header["Content-Type"] = "application/json"
  ngx.print(cjson.encode(members))
end

return track
