-- string_extend.lua: let a string lock end so many milliseconds from now, if it is the owner's.
--
-- KEYS[1]  the lock
-- ARGV[1]  the owner
-- ARGV[2]  the time in milliseconds
--
-- Returns 1 if it was done, 0 if the lock is another's or nobody's, which changes nothing.

if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return 0
