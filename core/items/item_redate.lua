-- Replaces a publish time that only clients reported with the site's, as the site's first report
-- does (track.lua).
--
-- KEYS 1 hot:article:{id}
-- ARGV 1 publish time  2 base hours and 3 gamma of view.lua
-- Returns 1; 0 if the article is unknown or removed, or the site has dated it.
--@include version
--@include increments
local article, time = KEYS[1], call('TIME')
local fields = call('HMGET', article, 'first', 'date', 'dated', 'hidden', 'v', 'increments')
if not fields[1] or fields[2] or fields[3] or fields[4] == '1' then return 0 end
local clock = time[1] + 0
local date = min(ARGV[1] + 0, clock)
local _, redate = increments_library()
redate(article, fields[6], fields[1] + 0, date, clock, ARGV[2] + 0, ARGV[3] + 0)
call('HSET', article, 'v', version_after(fields[5], time), 'first', date, 'dated', 1)
call('HDEL', article, 'early')
return 1
