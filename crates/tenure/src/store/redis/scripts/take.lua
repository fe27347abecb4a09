-- take.lua: the short way of acquire.lua, for a name that is free and not waited for.
--
-- Runs before ledger.lua and acquire.lua, which see to every other case. Keys and arguments are
-- acquire.lua's. Five calls: a lock that nobody else wants is worth no more.

if ARGV[7] == 'x' and redis.call('EXISTS', KEYS[1], KEYS[2]) == 0 then
  local time = redis.call('TIME')
  local now = time[1] * 1000000 + time[2]
  local count = tonumber(ARGV[10])
  local fence = now
  local last = redis.call('SET', KEYS[5], string.format('%.0f', now + count - 1), 'PX', ARGV[4], 'GET')
  last = tonumber(last or 0) or 0
  if last >= now then
    fence = last + 1
    redis.call('SET', KEYS[5], string.format('%.0f', last + count), 'PX', ARGV[4])
  end
  local who = ARGV[6] == 'c' and ARGV[1] or '-'
  redis.call('HSET', KEYS[1],
    ARGV[5], ARGV[8],
    '\1', string.format('%.0f %s -%s', fence, who, ARGV[12]),
    '\2', string.format('%.0f %s', now, ARGV[13]))
  redis.call('PEXPIRE', KEYS[1], ARGV[9])
  return fence
end
