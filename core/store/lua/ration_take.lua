-- A token of a visitor's bucket and nothing else: for keys with hash tags, where what the request does is not one script.
--
-- KEYS the bucket's (parts/ration.lua)
-- ARGV the bucket's
-- Returns 1.
--@include ration
return 1
