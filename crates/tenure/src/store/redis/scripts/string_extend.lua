-- string_extend.lua: let a string lock end so many milliseconds from now, if it is the claim's.
--
-- KEYS[1]  the lock
-- ARGV[1]  the claim
-- ARGV[2]  the time in milliseconds
-- ARGV[3]  what to write instead of the claim, for a lock that stays taken by nobody; or left out
--
-- Returns 1 if it was done, 0 if the lock is another's or nobody's, which changes nothing.

if redis.call('GET', KEYS[1]) == ARGV[1] then
  if ARGV[3] then
    redis.call('SET', KEYS[1], ARGV[3])
  end
  return redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return 0
