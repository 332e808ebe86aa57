-- Current time in unix ms.
local function now_ms()
  local time = call('TIME')
  return time[1] * 1000 + floor(time[2] / 1000)
end
