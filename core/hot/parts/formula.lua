-- Expects: formula, which is formula_argument() of core/hot/engagement.h. Gives its parameters as numbers, or fails on what is none.
local w_pv, w_uv, w_dwell, m, prior, half = formula:match('^(%S+) (%S+) (%S+) (%S+) (%S+) (%S+)$')
w_pv, w_uv, w_dwell, m, prior, half = w_pv + 0, w_uv + 0, w_dwell + 0, m + 0, prior + 0, half + 0
