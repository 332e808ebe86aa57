-- Second half of item_put.lua when keys carry hash tags.
--
-- KEYS 1 hot:rank  2 hot:score  3 hot:published  4 hot:current:index  5 hot:hidden  6 hot:epoch  7 hot:newest
--      8 hot:current:{hour} of the old publish time  9 the same of the new one  10… tag:{tag} of the tags it leaves, then of those it has
-- ARGV 1 id  2 1: remove  3 1: hidden  4 1: what lists show of it has changed  5 z or ''  6 publish time  7 undecayed sum or ''  8 accumulated score
--      or ''  9 counter TTL s  10 most members of a rank  11 number of tags it leaves
local id, removed, hidden, changed = ARGV[1], ARGV[2] == '1', ARGV[3] == '1', ARGV[4] == '1'
local function value(text) return text ~= '' and text or nil end
local z, date, total, score = tonumber(value(ARGV[5])), tonumber(ARGV[6]), value(ARGV[7]), value(ARGV[8])
local ttl, max, n_gone = tonumber(ARGV[9]), tonumber(ARGV[10]), tonumber(ARGV[11])
local clock = tonumber(redis.call('TIME')[1])
local keys = {unpack(KEYS, 1, 9)}
local gone, tags = {10, 9 + n_gone}, {10 + n_gone, #KEYS}
--@include item_place
return 1
