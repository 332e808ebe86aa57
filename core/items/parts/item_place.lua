-- Where an item stands in the sets that lists are made of.
-- Expects: id removed hidden changed z date total score clock ttl max, keys (see item_put.lua), gone and tags (first and last index into KEYS).
local rank, score_key, published, index, hidden_key, epoch = keys[1], keys[2], keys[3], keys[4], keys[5], keys[6]
local newest, old_bucket, new_bucket = keys[7], keys[8], keys[9]
local listed = redis.call('ZSCORE', rank, id) or redis.call('ZSCORE', score_key, id)
local dark_until = tonumber(redis.call('ZSCORE', hidden_key, id) or nil)
local was_dark = dark_until and dark_until > clock
local ahead = date > clock
redis.call('ZREM', old_bucket, id)
if removed or hidden then
  redis.call('ZREM', rank, id)
  redis.call('ZREM', score_key, id)
  redis.call('ZREM', new_bucket, id)
  redis.call('ZREM', published, id)
  redis.call('ZREM', newest, id)
  redis.call('ZREMRANGEBYSCORE', hidden_key, '-inf', clock - 3600)  -- not an embargo that lists may not have noticed yet
  redis.call('ZADD', hidden_key, removed and clock + ttl or '+inf', id)
else
  -- One that is dated ahead has its places already, and whoever reads them passes it over until its date.
  if ahead then redis.call('ZADD', hidden_key, string.format('%.1f', date - 0.5), id) else redis.call('ZREM', hidden_key, id) end
  if z then redis.call('ZADD', rank, string.format('%.17g', z), id) end
  if score then redis.call('ZADD', score_key, score, id) end
  if z or total then redis.call('ZADD', published, date, id) end
  if total then
    redis.call('ZADD', new_bucket, total, id)
    redis.call('EXPIRE', new_bucket, ttl)
    redis.call('ZADD', index, 'GT', total, math.floor(date / 3600))
  end
  redis.call('ZADD', newest, date, id)
  redis.call('ZREMRANGEBYRANK', newest, 0, -1001 - redis.call('ZCOUNT', newest, '(' .. clock, '+inf'))
  for _, each in ipairs({rank, score_key, published}) do redis.call('ZREMRANGEBYRANK', each, 0, -max - 1) end
end
-- An hour that nothing is left of is none of the index.
for _, bucket in ipairs({old_bucket, new_bucket}) do
  if redis.call('EXISTS', bucket) == 0 then redis.call('ZREM', index, string.match(bucket, '%-?%d+$')) end
end
for i = gone[1], gone[2] do redis.call('SREM', KEYS[i], id) end
for i = tags[1], tags[2] do redis.call('SADD', KEYS[i], id) end
-- Lists that show it, or showed it a moment ago, are wrong now.
local dark = removed or hidden or ahead
local gone_dark = dark and not was_dark
local back = was_dark and not dark
if gone_dark or back or (listed and changed) then
  redis.call('PUBLISH', epoch, redis.call('INCR', epoch))
end
