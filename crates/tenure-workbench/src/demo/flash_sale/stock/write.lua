-- write.lua: write what is left of the stock, unless the writer's fence is too old.
--
-- KEYS[1]  the stock: a hash {left, accepted, refused, fence}
-- ARGV[1]  how many are left
-- ARGV[2]  the writer's fence as 20 digits, so that text compares as the number does; missing for
--          a plain write that nobody checks
--
-- Returns 1 if it is written, 0 if a larger fence was seen before. Both are counted in the same step.

local fence = ARGV[2]

if fence then
  local seen = redis.call("HGET", KEYS[1], "fence")
  if seen and fence < seen then
    redis.call("HINCRBY", KEYS[1], "refused", 1)
    return 0
  end
  redis.call("HSET", KEYS[1], "fence", fence)
end

redis.call("HSET", KEYS[1], "left", ARGV[1])
redis.call("HINCRBY", KEYS[1], "accepted", 1)
return 1
