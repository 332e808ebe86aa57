-- Expects: id z date clock half floor max rank published. Writes the member; only when the set has grown is it trimmed: members whose score
-- fell under the floor (its log2 in `floor`), then the lowest beyond `max`. So the cap always holds, and most calls pay nothing.
if redis.call('ZADD', rank, z, id) == 1 then
  redis.call('ZADD', published, date, id)
  redis.call('ZREMRANGEBYSCORE', rank, '-inf', '(' .. string.format('%.17g', floor + clock / half))
  redis.call('ZREMRANGEBYRANK', rank, 0, -max - 1)
  redis.call('ZREMRANGEBYRANK', published, 0, -max - 1)
end
