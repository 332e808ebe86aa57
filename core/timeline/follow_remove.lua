-- A reader follows an author no more: what the author's outboxes hold leaves the reader's timeline, and the recorder is told, also when Redis knew
-- nothing of it.
--
-- KEYS 1 follow:authors:{reader}  2 follow:readers:{author}  3 follow:outbox:{author}  4 follow:pull:{author}  5 wf:{channel}:{reader}
--      6 recorder:stream
-- ARGV 1 reader  2 author  3 most entries of the stream
-- Returns how many items left. Errors, before the first write: STREAM_FULL.
local call, removed = redis.call, 0
if call('XLEN', KEYS[6]) >= tonumber(ARGV[3]) then return redis.error_reply('STREAM_FULL the recorder does not keep up') end
local published = {call('ZRANGEBYSCORE', KEYS[3], '(0', '+inf'), call('ZRANGEBYSCORE', KEYS[4], '(0', '+inf')}
for _, items in ipairs(published) do
  for from = 1, #items, 1000 do  -- unpack() has its limits
    removed = removed + call('ZREM', KEYS[5], unpack(items, from, math.min(from + 999, #items)))
  end
end
call('ZREM', KEYS[1], ARGV[2])
call('ZREM', KEYS[2], ARGV[1])
call('XADD', KEYS[6], '*', 'op', 'unfollow', 'reader', ARGV[1], 'author', ARGV[2])
return removed
