-- take.lua: the short way of acquire.lua, for a name that is free and not waited for.
--
-- Runs before ledger.lua and acquire.lua, which see to every other case. Keys and arguments are
-- acquire.lua's, for an exclusive claim. Five calls: a lock that nobody else wants is worth no more.

local lease = KEYS[1]
if redis.call('EXISTS', lease, lease .. ':line') == 0 then
  local time = redis.call('TIME')
  local fence = time[1] .. string.sub('00000', #time[2]) .. time[2]
  local now, count = tonumber(fence), ARGV[6]
  local last = redis.call('SET', lease .. ':fence', now + count - 1, 'PX', ARGV[7], 'GET')
  if last and (tonumber(last) or 0) >= now then
    fence = string.format('%.0f', last + 1)
    redis.call('SET', lease .. ':fence', last + count, 'PX', ARGV[7])
  end
  redis.call('HSET', lease, ARGV[2], ARGV[4], '\1', fence .. ' ' .. ARGV[3])
  redis.call('PEXPIRE', lease, ARGV[5])
  return fence
end
