-- What this report adds, in hot:added:{visitor}: one field an item, 2^42 for each page view and 1 for each ms. A visitor adds to UV what the estimate
-- rises by, which is 1 with the first page view; what is more or less than that, as among thousands, has a field of its own. So has what is added to
-- a page view that another visitor brought, in a session that both have. Each new field renews the TTL.
-- Expects: call counts text more uv uv_before id. An overflow (two million page views of an item) is not remembered.
local added, usual, new = KEYS[#KEYS], 0, false
if counts then
  local all = redis.pcall('HINCRBY', added, 't:' .. id, 4398046511104 + text)
  if type(all) == 'number' and all < 2 * 4398046511104 then
    usual, new = 1, true
  end
elseif more > 0 then
  new = redis.pcall('HINCRBY', added, 't:' .. id, more) == more
end
local rest = uv - uv_before - usual
if rest ~= 0 and call('HINCRBY', added, 'u:' .. id, rest) == rest then new = true end
if new then call('EXPIRE', added, ARGV[15]) end
