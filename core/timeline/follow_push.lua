-- Adds ids to the head of a list in the format of timelines.
--
-- KEYS 1 follow:readers:{author}, follow:outbox:{author} or follow:pull:{author}
-- ARGV 1 maximum ids to keep, '': all  2… ids, the last becomes the highest
-- Returns {the highest score ever given}.
--@include timeline
push(KEYS[1], {unpack(ARGV, 2)}, tonumber(ARGV[1]) or math.huge, clock_us())
return {score_text(mark(KEYS[1], HIGHEST))}
