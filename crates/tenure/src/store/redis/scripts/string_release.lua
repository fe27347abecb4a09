-- string_release.lua: free a string lock, if the claim has it.
--
-- KEYS[1]  the lock
-- ARGV[1]  the claim
--
-- Returns 1 if the lock was freed, 0 if another claim or nobody has it. In that case nothing is
-- changed.

if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0
