local call, format, floor, max, min = redis.call, string.format, math.floor, math.max, math.min
