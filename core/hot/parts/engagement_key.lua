-- Expects: pv uv sum cnt first, and formula.lua before it. Gives: base, z (z is nil when base has no logarithm).
-- base = w_pv·pv + w_uv·uv + w_dwell·(sum + m·prior)/(cnt + m);  z = log2(base) + first/half   (core/hot/engagement.h)
local mean = 0
if cnt + m > 0 then mean = (sum + m * prior) / (cnt + m) end
local base = w_pv * pv + w_uv * uv + w_dwell * mean
local z
if base > 0 and base < math.huge then z = math.log(base) / 0.69314718055994530942 + first / half end
