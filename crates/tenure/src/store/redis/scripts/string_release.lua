-- string_release.lua: free a string lock, if it is the claim's.
--
-- KEYS[1]  the lock
-- ARGV[1]  the claim
--
-- Returns 1 if it was freed, 0 if the lock is another's or nobody's, which changes nothing.

if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0
