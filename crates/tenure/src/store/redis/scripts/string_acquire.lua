-- string_acquire.lua: take a string lock, with a fence.
--
-- KEYS[1]  the lock: a string with the claim, which expires with its ttl
-- KEYS[2]  the last reserved fence; expires long after its last use
-- ARGV[1]  the claim
-- ARGV[2]  the ttl in milliseconds
-- ARGV[3]  how many fences to reserve
-- ARGV[4]  how many milliseconds to remember the last fence
--
-- Returns the first fence as text, or 0 while another claim has the lock. A retry for the same claim
-- restarts the ttl and returns a larger fence, so it is safe when a reply was lost.

if not redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  if redis.call('GET', KEYS[1]) ~= ARGV[1] then
    return 0
  end
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
local time = redis.call('TIME')
local fence = time[1] .. string.sub('00000', #time[2]) .. time[2]
local now, count = tonumber(fence), ARGV[3]
local last = redis.call('SET', KEYS[2], now + count - 1, 'PX', ARGV[4], 'GET')
if last and (tonumber(last) or 0) >= now then
  fence = string.format('%.0f', last + 1)
  redis.call('SET', KEYS[2], last + count, 'PX', ARGV[4])
end
return fence
