-- Shared by the load scripts: a browser's headers, and the result as one line of JSON.
local common = {}

common.headers = {
  ["User-Agent"] = "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) "
    .. "Chrome/126.0.0.0 Safari/537.36",
  ["Accept"] = "*/*",
  ["Accept-Language"] = "en-GB,en;q=0.9",
}

-- Returns the head of a POST, up to and without the value of Content-Length. path: by default that of the URL.
function common.post_head(path)
  local lines = { "POST " .. (path or wrk.path) .. " HTTP/1.1", "Host: " .. wrk.headers["Host"] }
  for name, value in pairs(common.headers) do
    lines[#lines + 1] = name .. ": " .. value
  end
  lines[#lines + 1] = "Content-Type: application/json"
  lines[#lines + 1] = "Content-Length: "
  return table.concat(lines, "\r\n")
end

-- Prints the results. Times are in microseconds.
function common.report(summary, latency)
  local errors = summary.errors
  io.write(string.format(
    'RESULT {"requests":%d,"duration_us":%d,"p50_us":%d,"p99_us":%d,"max_us":%d,'
      .. '"errors":{"connect":%d,"read":%d,"write":%d,"status":%d,"timeout":%d}}\n',
    summary.requests, summary.duration, latency:percentile(50), latency:percentile(99), latency.max,
    errors.connect, errors.read, errors.write, errors.status, errors.timeout))
end

return common
