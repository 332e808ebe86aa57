-- Pushes ids into one list of followers: for tools that bring them back.
--
-- KEYS 1 follow:readers:{author}, follow:outbox:{author} or follow:pull:{author}
-- ARGV 1 most ids that stay, '': any number  2 TTL s of a key that is new, '': none  3… ids, the last becomes the highest
-- Returns {how many were new, the highest score ever given}.
--@include timeline
local pushed, is_new = push(KEYS[1], {unpack(ARGV, 3)}, tonumber(ARGV[1]) or math.huge, clock_us())
if is_new and ARGV[2] ~= '' then redis.call('EXPIRE', KEYS[1], ARGV[2]) end
return {pushed, whole(mark(KEYS[1], ':'))}
