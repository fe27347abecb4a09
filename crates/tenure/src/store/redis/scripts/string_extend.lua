-- string_extend.lua: make a string lock expire this many milliseconds from now, if the claim has
-- it.
--
-- KEYS[1]  the lock
-- ARGV[1]  the claim
-- ARGV[2]  the time in milliseconds
-- ARGV[3]  what to write instead of the claim, for a lock that stays taken by nobody; may be omitted
--
-- Returns 1 if it did, 0 if another claim or nobody has the lock. In that case nothing is changed.

if redis.call('GET', KEYS[1]) == ARGV[1] then
  if ARGV[3] then
    redis.call('SET', KEYS[1], ARGV[3])
  end
  return redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return 0
