-- Removes views of one kind from a reader's history, except those viewed again since the caller read them. When the history is cleared, field t (topics)
-- or r (replies) stores up to when, so that older views in a spool are rejected later.
--
-- KEYS 1 user:views:topic:{reader} or user:views:reply:{reader}  2 user:views:at:{reader}
-- ARGV 1 t (topic) or r (reply)  2 time up to which the history is cleared, capped at now; 0: not cleared  3 TTL s
--      4… item and its time as read by the caller ('': none)
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
