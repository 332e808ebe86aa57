-- Pushes what an author published into the timelines of some followers, and notes in the job how far that is: both or neither.
--
-- KEYS 1 job:{id}  2 follow:readers:{author}  3… wf:{channel}:{reader} of each
-- ARGV 1 the cursor as the caller knows it  2 the cursor behind these followers  3 '1': they are the last  4 upto  5 most items of a timeline
--      6 its TTL s  7 TTL of the job s  8 number of items  9… items, then of each timeline its reader and their score in KEYS[2]
-- Returns {state, cursor} of the job; when it is over, or its cursor is another, nothing was done. Who left, or followed anew, since the caller
-- looked is left out; a timeline that is no ZSET counts as failed.
--@include timeline
local call, now = redis.call, clock_us()
local job = call('HMGET', KEYS[1], 'state', 'cursor', 'done', 'total', 'failed')
local state, cursor = job[1] or 'queued', job[2] or '0'
if state == 'done' or state == 'failed' or cursor ~= ARGV[1] then return {state, cursor} end
local done, failed = tonumber(job[3] or 0), tonumber(job[5] or 0)
local total = tonumber(job[4]) or call('ZCOUNT', KEYS[2], '(0', ARGV[4])
local items = {unpack(ARGV, 9, 8 + ARGV[8])}
local who = 9 + ARGV[8]
for i = 3, #KEYS do
  if call('ZSCORE', KEYS[2], ARGV[who]) == ARGV[who + 1] then
    local type = call('TYPE', KEYS[i]).ok
    if type == 'zset' or type == 'none' then
      local _, is_new = push(KEYS[i], items, tonumber(ARGV[5]), now)
      if is_new then call('EXPIRE', KEYS[i], ARGV[6]) end
      done = done + 1
    else
      failed = failed + 1
    end
  end
  who = who + 2
end
state, cursor = 'running', ARGV[2]
if ARGV[3] == '1' then state, total = 'done', done + failed end  -- the others left
call('HSET', KEYS[1], 'state', state, 'cursor', cursor, 'done', done, 'total', total, 'failed', failed)
call('EXPIRE', KEYS[1], ARGV[7])
return {state, cursor}
