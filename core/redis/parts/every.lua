-- Redis converts a number among a command's arguments with 17 digits, which takes longer than most
-- commands: hot scripts pass texts.
local call, format, floor, max, min = redis.call, string.format, math.floor, math.max, math.min
