-- What this report adds, in hot:added:{visitor}: one field an item, 2^42 for each page view and 1 for each ms. A visitor adds to UV what the estimate
-- rises by, which is 1 with the first page view; what is more or less than that, as among thousands, has a field of its own.
-- Expects: call counts text more uv uv_before id. An overflow (two million page views of an item) is not remembered.
local added, usual = KEYS[#KEYS], 0
if counts then
  local all = redis.pcall('HINCRBY', added, 't:' .. id, 4398046511104 + text)
  if type(all) == 'number' and all < 2 * 4398046511104 then
    call('EXPIRE', added, ARGV[20])
    usual = 1
  end
elseif more > 0 then
  redis.pcall('HINCRBY', added, 't:' .. id, more)
end
if uv - uv_before ~= usual then call('HINCRBY', added, 'u:' .. id, uv - uv_before - usual) end
