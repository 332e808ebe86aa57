-- The recorder's lease, a hash: name of the last `holder` and its `process`, its `token`, its
-- `database`, and the expiry time `till` (unix ms). Tokens only grow.
--@include clock
local function extend(lease, ms) call('HSET', lease, 'till', format('%.0f', now_ms() + ms)) end
