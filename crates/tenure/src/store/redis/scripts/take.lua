-- take.lua: the fast paths of acquire.lua, for an exclusive claim without an owner, on a name that is free
-- and not waited for, or that one other claim has.
--
-- Runs before ledger.lua and acquire.lua, which handle all other cases. Keys and arguments are those of
-- acquire.lua. Makes five calls for a grant: a lock that nobody else wants must not cost more.

local lease = KEYS[1]
local line, places = lease .. ':line', lease .. ':places'
if not ARGV[10] and redis.call('EXISTS', lease, line) == 0 then
  local time = redis.call('TIME')
  local fence = time[1] .. string.sub('00000', #time[2]) .. time[2]
  local now, count, clock = tonumber(fence), ARGV[5], ''
  if ARGV[9] then
    clock = ' ' .. fence
    if tonumber(ARGV[9]) > now then
      fence, now = ARGV[9], tonumber(ARGV[9])
    end
  end
  local last = redis.call('SET', lease .. ':fence', now + count - 1, 'PX', ARGV[6], 'GET')
  if last and (tonumber(last) or 0) >= now then
    fence = string.format('%.0f', last + 1)
    redis.call('SET', lease .. ':fence', last + count, 'PX', ARGV[6])
  end
  redis.call('HSET', lease, ARGV[2], 1, '\1', fence .. ' ' .. ARGV[3])
  redis.call('PEXPIRE', lease, ARGV[4])
  return fence .. clock
end

local held = redis.call('HMGET', lease, '\1', ARGV[2])
-- There is one exclusive holder, which is another claim and need not be told.
local before, flag, after = string.match(held[1] or '', '^(%d+ %S+ )(.)(%- .*)$')
local session = string.match(ARGV[1], '^(%S+) 0 ')
if before and session and not held[2] and ARGV[8] ~= '0' then
  local own = session .. ':' .. ARGV[2]
  local known = redis.call('HMGET', places, own, '\3', '\4')
  local left = redis.call('PTTL', lease)
  if not known[1] and left >= 0 then
    local time = redis.call('TIME')
    local now = time[1] * 1000 + math.floor(time[2] / 1000)
    local asks = now + left
    local deadline = asks + 10000 + math.floor(left / 10)
    local who, tell, about = string.match(ARGV[3], '^(%S+) .(.) (.*)$')
    local life = who == '-' and 't' or 'c'
    redis.call('HSET', places, own, string.format('x %s %s %s %s %.0f %.0f %.0f %s', life, ARGV[5], ARGV[4], tell,
      time[1] * 1000000 + time[2], asks, deadline, about))
    redis.call('RPUSH', line, own)
    if flag == '-' then
      redis.call('HSET', lease, '\1', before .. 'l' .. after)
    end
    if asks > tonumber(known[2] or 0) then
      redis.call('HSET', places, '\3', asks)
    end
    if deadline + 600000 > tonumber(known[3] or 0) then
      redis.call('HSET', places, '\4', deadline + 3600000)
      redis.call('PEXPIRE', line, deadline - now + 3600000)
      redis.call('PEXPIRE', places, deadline - now + 3600000)
    end
    return -left - 1
  end
end
