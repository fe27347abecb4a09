-- string_acquire.lua: take a string lock, with a fence.
--
-- KEYS[1]  the lock: a string, the owner, that expires with its ttl
-- KEYS[2]  the last fence that was set aside; expires long after its last use
-- ARGV[1]  the owner
-- ARGV[2]  the ttl in milliseconds
-- ARGV[3]  how many fences to set aside
-- ARGV[4]  for how many milliseconds the last fence is remembered
--
-- Returns the first fence, or 0 while another owner has the lock. Asking again as the same owner
-- restarts the ttl and returns a larger fence, so a request may be repeated when its answer was lost.

if not redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  if redis.call('GET', KEYS[1]) ~= ARGV[1] then
    return 0
  end
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
local time = redis.call('TIME')
local fence = time[1] * 1000000 + time[2]
local count = tonumber(ARGV[3])
local last = redis.call('SET', KEYS[2], string.format('%.0f', fence + count - 1), 'PX', ARGV[4], 'GET')
last = tonumber(last or 0) or 0
if last >= fence then
  fence = last + 1
  redis.call('SET', KEYS[2], string.format('%.0f', fence + count - 1), 'PX', ARGV[4])
end
return fence
