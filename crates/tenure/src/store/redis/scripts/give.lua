-- give.lua: the fast paths of release.lua, for a lease that nobody else wants, and for one that the
-- first in line takes over.
--
-- Runs before ledger.lua and release.lua, which handle all other cases. Keys and arguments are
-- those of release.lua. Makes two calls for a lease that nobody else wants, as many as a plain
-- compare-and-delete.

if not ARGV[5] then
  local lease = KEYS[1]
  local held = redis.call('HMGET', lease, ARGV[2], '\1')
  local number, who, flag = string.match(held[2] or '', '^(%d+) (%S+) (.)')
  if held[1] and who == ARGV[3] and (ARGV[4] == '' or ARGV[4] == number) then
    if flag == '-' then
      redis.call('DEL', lease)
      return 0
    end
    local line, places = lease .. ':line', lease .. ':places'
    local memory, inbox = string.match(ARGV[1], '^%S+ 0 (%d+) (.*)$')
    local id = redis.call('LINDEX', line, 0)
    local first = memory and id and redis.call('HMGET', places, id, '\3')
    -- The first in line is an exclusive claim without an owner, which need not be told of others.
    local life, count, ttl, asked, deadline, about = string.match(first and first[1] or '',
      '^x (%a) (%d+) (%d+) %- (%d+) %d+ (%d+) ([^\n]*)$')
    if life then
      local time = redis.call('TIME')
      local now = time[1] * 1000 + math.floor(time[2] / 1000)
      -- Its client is alive, and nobody behind it would ask again later than its lease may end.
      if tonumber(deadline) > now and tonumber(first[2] or 0) <= now + ttl then
        local session, claim = string.match(id, '^([^:]+):(.*)$')
        if redis.call('PUBSUB', 'NUMSUB', inbox .. session)[2] > 0 then
          redis.call('DEL', lease)
          local fence = time[1] .. string.sub('00000', #time[2]) .. time[2]
          local now_us = tonumber(fence)
          local last = redis.call('SET', lease .. ':fence', now_us + count - 1, 'PX', memory, 'GET')
          if last and (tonumber(last) or 0) >= now_us then
            fence = string.format('%.0f', last + 1)
            redis.call('SET', lease .. ':fence', last + count, 'PX', memory)
          end
          redis.call('PUBLISH', inbox .. session,
            string.format('g %s %s %s %.0f %s\n%s', fence, count, ttl, now_us - asked, claim, lease))
          redis.call('LREM', line, 1, id)
          flag = '-'
          if redis.call('EXISTS', line) == 1 then
            flag = 'l'
            redis.call('HDEL', places, id)
          else
            redis.call('DEL', places)
          end
          local holder = life == 'c' and session or '-'
          redis.call('HSET', lease, claim, 1, '\1', fence .. ' ' .. holder .. ' ' .. flag .. '- ' .. about)
          redis.call('PEXPIRE', lease, ttl)
          return 0
        end
      end
    end
  end
end
