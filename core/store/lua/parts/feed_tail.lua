-- What handing out a page ends with. Expects feed_head.lua, the page in `items`, and `before`: what is on the page already (a refill).
local left = redis.call('LLEN', cache)
if #items > 0 then
  local scored = {}
  for _, id in ipairs(items) do
    scored[#scored + 1] = string.format('%.0f', -now)
    scored[#scored + 1] = id
  end
  redis.call('ZADD', pending, unpack(scored))
  redis.call('EXPIRE', pending, ARGV[4])
end
local words = {string.format('%.0f', generation), string.format('%.0f', sequence), left > 0 and '1' or '0', left == 0 and done and '1' or '0'}
for _, id in ipairs(before) do words[#words + 1] = id end
for _, id in ipairs(items) do words[#words + 1] = id end
local text = table.concat(words, ' ')
if page then redis.call('SET', page, text, 'EX', ARGV[3]) end
return {'page', text}
