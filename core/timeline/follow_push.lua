-- Ids join the head of a list that is kept as timelines are.
--
-- KEYS 1 follow:readers:{author}, follow:outbox:{author} or follow:pull:{author}
-- ARGV 1 most ids that stay, '': any number  2… ids, the last becomes the highest
-- Returns {the highest score ever given}.
--@include timeline
push(KEYS[1], {unpack(ARGV, 2)}, tonumber(ARGV[1]) or math.huge, clock_us())
return {whole(mark(KEYS[1], ':'))}
