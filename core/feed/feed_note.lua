-- The seen-filter has learned of impressions that no page of the feed handed out: what is buffered may be among them.
--
-- KEYS 1 feed:state:{reader}
-- Returns 1, or 0 when there is no buffer.
if call('EXISTS', KEYS[1]) == 0 then return 0 end
call('HINCRBY', KEYS[1], 'noted', 1)
return 1
