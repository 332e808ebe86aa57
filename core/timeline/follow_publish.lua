-- An author publishes: items join the outbox, and what readers pull when there are too many followers to push to.
--
-- KEYS 1 follow:outbox:{author}  2 follow:readers:{author}  3 follow:pull:{author}
-- ARGV 1 most items of an outbox  2 most followers that are pushed to  3 '1': the recorder does not keep up  4… items, the last becomes the
--      newest
-- Returns {number of followers who are to be pushed to, the highest score of a follower ever, the highest in KEYS[3] ever, '' when nothing is
-- to be pulled}. Errors, before the first write: STREAM_FULL.
--@include timeline
local most, followers, now = tonumber(ARGV[1]), redis.call('ZCOUNT', KEYS[2], '(0', '+inf'), clock_us()
local pulled, items = followers > tonumber(ARGV[2]), {unpack(ARGV, 4)}
if pulled then followers = 0 end
if followers > 0 and ARGV[3] == '1' then return redis.error_reply('STREAM_FULL the recorder does not keep up') end
if pulled then push(KEYS[3], items, most, now) end
push(KEYS[1], items, most, now)
return {followers, whole(mark(KEYS[2], ':')), pulled and whole(mark(KEYS[3], ':')) or ''}
