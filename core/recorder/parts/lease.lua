-- The recorder's lease, a hash: who took it last (`holder`, in words; `process`), with which `token`, for which `database`, and `till` when
-- (unix ms). Tokens only grow.
--@include clock
local function extend(lease, ms) call('HSET', lease, 'till', format('%.0f', now_ms() + ms)) end
