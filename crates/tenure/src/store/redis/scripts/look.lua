-- look.lua: report who holds a name and who waits for it. Changes nothing.
--
-- KEYS and ARGV[1] as in ledger.lua
--
-- Returns the server's time in microseconds, the remaining ttl of the lease's key in milliseconds,
-- the contents of the lease, the ends, the line and the places, and for each id in the line how
-- many clients listen to its inbox (nothing if that is unknown).

local lease = KEYS[1]
local confirm, inbox = string.match(ARGV[1], '^%S+ (%d+) %d+ (.*)$')
local time = redis.call('TIME')
local line = redis.call('LRANGE', lease .. ':line', 0, -1)
local listeners = {}
if confirm == '0' then
  for i, id in ipairs(line) do
    listeners[i] = redis.call('PUBSUB', 'NUMSUB', inbox .. string.match(id, '^[^:]+'))[2]
  end
end
return {
  time[1] * 1000000 + time[2],
  redis.call('PTTL', lease),
  redis.call('HGETALL', lease),
  redis.call('ZRANGE', lease .. ':ends', 0, -1, 'WITHSCORES'),
  line,
  redis.call('HGETALL', lease .. ':places'),
  listeners,
}
