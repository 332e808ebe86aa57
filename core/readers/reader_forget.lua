-- Forgets what a reader viewed of one kind, but what was viewed again since the caller looked. When a history is cleared, the field t (topics) or
-- r (replies) says up to when: a view from before that may still wait in a spool.
--
-- KEYS 1 user:views:topic:{reader} or user:views:reply:{reader}  2 user:views:at:{reader}
-- ARGV 1 t (topic) or r (reply)  2 up to when the history is cleared, at most now; 0: it is not  3 TTL s  4… item and its time as the caller read it ('': none)
local list, times, letter = KEYS[1], KEYS[2], ARGV[1]
for i = 4, #ARGV, 2 do
  local field = letter .. ':' .. ARGV[i]
  if (call('HGET', times, field) or '') == ARGV[i + 1] then
    call('LREM', list, 0, ARGV[i])
    call('HDEL', times, field)
  end
end
local cleared = min(tonumber(ARGV[2]), tonumber(call('TIME')[1]))
if cleared > tonumber(call('HGET', times, letter) or 0) then
  call('HSET', times, letter, format('%.0f', cleared))
  call('EXPIRE', times, ARGV[3])
end
