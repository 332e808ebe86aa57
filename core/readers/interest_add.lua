-- Adds items to readers' interests: a view of one becomes its reader's newest interaction. A reader whose key is of another type is passed over.
--
-- KEYS 1… user:interactions:{reader} and user:earlier:{reader} of each, in turns
-- ARGV 1 most interactions kept  2 most of user:earlier  3 TTL s  4… v:{item} of each
local call, most, most_earlier = redis.call, tonumber(ARGV[1]), tonumber(ARGV[2])
local now = call('TIME')[1]
for i = 1, #KEYS / 2 do
  local done, earlier = KEYS[2 * i - 1], KEYS[2 * i]
  if type(redis.pcall('ZADD', done, now, ARGV[3 + i])) == 'number' then
    --@include reader_trim
    call('EXPIRE', done, ARGV[3])
    call('EXPIRE', earlier, ARGV[3])
  end
end
