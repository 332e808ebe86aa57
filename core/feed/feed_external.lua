-- Notes that impressions were recorded outside of feed pages: buffered items may be among them.
--
-- KEYS 1 feed:state:{reader}
-- ARGV 1 TTL s while a page is not acknowledged  2… unacknowledged pages (feed_state.lua) of a reader who is merged into this one
-- Returns 1, or 0 if the reader has no feed state.
if ARGV[2] then
  local late = call('HGET', KEYS[1], 'late') or ''
  for i = 2, #ARGV do
    local line = ARGV[i] .. '\n'
    if not string.find(late, line, 1, true) then late = late .. line end
  end
  call('HSET', KEYS[1], 'late', late)
  call('EXPIRE', KEYS[1], ARGV[1])
elseif call('EXISTS', KEYS[1]) == 0 then
  return 0
end
call('HINCRBY', KEYS[1], 'noted', 1)
return 1
