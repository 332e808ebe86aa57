-- Renews the recorder's lease, or gives it back.
--
-- KEYS 1 recorder:lease
-- ARGV 1 the token  2 for how many ms from now on; 0: it is given back
-- Returns 1; the error FENCED when another took it since, NOGROUP when Redis has lost it.
--@include lease
return renew(KEYS[1], ARGV[1], ARGV[2]) or 1
