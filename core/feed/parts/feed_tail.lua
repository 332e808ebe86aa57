-- What handing out a page ends with. Expects feed_head.lua, the page in `items`, `moves` counted on, and `before`: what is on the page already (a
-- refill).
local left = redis.call('LLEN', cache)
local number = string.format('%.0f', generation)
local handed_out = table.concat(items, ' ')
if #items > 0 then
  redis.call('ZADD', pending, string.format('%.0f', -now), number .. '.' .. string.format('%.0f', moves) .. ' ' .. handed_out)
  redis.call('EXPIRE', pending, ARGV[4])
end
local words = {number, string.format('%.0f', sequence), string.format('%.0f', moves), left > 0 and '1' or '0', left == 0 and done and '1' or '0'}
for _, id in ipairs(before) do words[#words + 1] = id end
if #items > 0 then words[#words + 1] = handed_out end
local text = table.concat(words, ' ')
if page then redis.call('SET', page, text, 'EX', ARGV[3]) end
return {'page', text}
