-- look.lua: who holds a name and who waits for it. Changes nothing.
--
-- KEYS and ARGV[1..4] as in ledger.lua
--
-- Returns the server's time in microseconds, what is left of the lease's key in milliseconds, the
-- lease, the ends, the line and the places as they are, and for each id in the line how many listen
-- to its inbox (nothing where that cannot be known).

local time = redis.call('TIME')
local line = redis.call('LRANGE', KEYS[2], 0, -1)
local listeners = {}
if ARGV[3] == '0' then
  for i, id in ipairs(line) do
    listeners[i] = redis.call('PUBSUB', 'NUMSUB', ARGV[2] .. string.match(id, '^[^:]+'))[2]
  end
end
return {
  time[1] * 1000000 + time[2],
  redis.call('PTTL', KEYS[1]),
  redis.call('HGETALL', KEYS[1]),
  redis.call('ZRANGE', KEYS[4], 0, -1, 'WITHSCORES'),
  line,
  redis.call('HGETALL', KEYS[3]),
  listeners,
}
