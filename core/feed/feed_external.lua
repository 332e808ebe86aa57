-- Notes that impressions were recorded outside of feed pages: buffered items may be among them.
--
-- KEYS 1 feed:state:{reader}
-- Returns 1, or 0 if the reader has no feed state.
if call('EXISTS', KEYS[1]) == 0 then return 0 end
call('HINCRBY', KEYS[1], 'noted', 1)
return 1
