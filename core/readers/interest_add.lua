-- Adds items to readers' interests: a view of one becomes its reader's newest interaction. A reader whose key is of another type is passed over.
-- The TTL is renewed once a day: that is enough.
--
-- KEYS 1… user:interactions:{reader} and user:earlier:{reader} of each, in turns, by call_of()
-- ARGV 1 most interactions kept  2 most of user:earlier  3 TTL s  4… v:{item} of each
local call, most, most_earlier, ttl = redis.call, tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3]
local now, renewed = call('TIME')[1], ttl - math.min(86400, ttl / 8)
for i = 1, #KEYS / 2 do
  local done, earlier = KEYS[2 * i - 1], KEYS[2 * i]
  local new = redis.pcall('ZADD', done, now, ARGV[3 + i])
  if type(new) == 'number' then
    local left = call('TTL', done)
    local renews = left < renewed
    if new == 1 and left >= 0 then  -- else the reader is new
      --@include reader_trim
      renews = renews or gone[1]
    end
    if renews then
      call('EXPIRE', done, ttl)
      if left >= 0 then call('EXPIRE', earlier, ttl) end
    end
  end
end
