-- ledger.lua: the rules of one name, shared by the scripts that change one.
--
-- KEYS[1]  the lease: a hash that ends with the last lease on the name. An owner's field is its
--          depth; the other fields begin with a control character, which no owner has.
--          One exclusive holder ("plain"):
--            \1           "<fence> <who> <line><tell> <about>": `who` is the session of the holder's
--                         client, `-` for a lease of no client, `!` for a name that stays taken by
--                         nobody; <line> is `l` if somebody stands in line, <tell> is `w` if the
--                         holder wants to be told of that, each else `-`
--          Any other case ("many"):
--            \1           "E <class> <taken> <limit> <mixed>": x, s or p; permits taken, the smallest
--                         number of permits, and whether that number differs between grants
--            \2<owner>    "<fence> <mode>", the owner's grant
--            \3<id>       "<depth> <since> <about>", one client's part; id is "<who>:<owner>"
--            \4<fence>:<owner>  "<fence> <mode>", a name that stays taken by nobody; its id is
--                         "!:<fence>:<owner>"
--            \5           the ids, each on a line, of those who want to be told when others ask
--
-- Four more keys begin with it and so share its {hash tag}. A cluster is given them as KEYS[2..5], so
-- that it never runs a script while only some of them have moved to another node:
--   :line    a list of ids "<session>:<owner>", first come first
--   :places  a hash, id -> "<mode> <depth> <life> <fences> <ttl> <tell> <asked> <asks> <deadline>
--            <about>"; \1<owner> is the id of its place, \2 is there if an owner has more than one
--            place, \3 is the latest time at which anybody in line asks again, \4 is until when line
--            and places are kept
--   :ends    a sorted set, id -> when that lease ends; only with "many"
--   :fence   the last fence that was set aside; expires long after its last use
--
-- ARGV[1]  "<session> <confirm> <memory> <inbox>": the session of the client that asks; 0 if PUBLISH
--          tells whether anybody listens, else for how many milliseconds a lease is handed over
--          until its new holder confirms it by asking again; for how many milliseconds the last
--          fence is remembered; and what every inbox begins with, before the session
--
-- Times are the server's: milliseconds, and microseconds for fences, since and asked. A write that a
-- full server may refuse never follows a PUBLISH, unless the script has written before.

local lease, line, places, ends, last
local session, confirm, memory, inbox = string.match(ARGV[1], '^(%S+) (%d+) (%d+) (.*)$')
confirm = tonumber(confirm)
local time = redis.call('TIME')
local now_us = time[1] * 1000000 + time[2]
local now = math.floor(now_us / 1000)

-- The state of the name that is open: `head` is nil while nobody has it.
local head, many, class, taken, limit, mixed
-- When the plain lease ends, where this script has set it.
local plain_end

local function text(number)
  return string.format('%.0f', number)
end

local function open(key)
  lease, line, places, ends, last = key, key .. ':line', key .. ':places', key .. ':ends', key .. ':fence'
  head = redis.call('HGET', lease, '\1') or nil
  many, plain_end = false, nil
  if head and string.sub(head, 1, 1) == 'E' then
    many = true
    local t, l
    class, t, l, mixed = string.match(head, '^E (%a) (%d+) (%d+) (%d)$')
    taken, limit = tonumber(t), tonumber(l)
  end
end

local function save()
  head = 'E ' .. class .. ' ' .. text(taken) .. ' ' .. text(limit) .. ' ' .. mixed
  redis.call('HSET', lease, '\1', head)
end

local function permits(mode)
  local take, of = string.match(mode, '^p(%d+)/(%d+)$')
  return tonumber(take), tonumber(of)
end

-- Whether a holder in one mode may enter again in another.
local function covers(held, asked)
  return held == asked or (held == 'x' and asked == 's')
end

-- Whether an owner that is not in yet can go in beside those that are.
local function fits(mode)
  if not head then
    return true
  end
  if not many or mode == 'x' then
    return false
  end
  if mode == 's' then
    return class == 's'
  end
  local take, of = permits(mode)
  return class == 'p' and taken + take <= math.min(limit, of)
end

-- Sets so many fences aside, from a number on or from now on, and returns the first.
local function reserve(count, from)
  local first = math.max(now_us, from or 0)
  local before = redis.call('SET', last, text(first + count - 1), 'PX', memory, 'GET')
  before = tonumber(before or 0) or 0
  if before >= first then
    first = before + 1
    redis.call('SET', last, text(first + count - 1), 'PX', memory)
  end
  return first
end

-- The fence and the mode of an owner's grant, whichever client has it.
local function grant_of(owner)
  if not head then
    return nil
  end
  if many then
    local grant = redis.call('HGET', lease, '\2' .. owner)
    if grant then
      return string.match(grant, '^(%d+) (.+)$')
    end
    return nil
  end
  local depth = redis.call('HGET', lease, owner)
  if depth and depth ~= '0' then
    return string.match(head, '^(%d+)'), 'x'
  end
end

-- The depth of one client's part of an owner's grant.
local function depth_of(who, owner)
  if not head then
    return nil
  end
  if many then
    local row = redis.call('HGET', lease, '\3' .. who .. ':' .. owner)
    return row and tonumber(string.match(row, '^%d+'))
  end
  local depth = redis.call('HGET', lease, owner)
  if depth and string.match(head, '^%d+ (%S+)') == who then
    return tonumber(depth)
  end
end

-- Lowers the depth of one client's part of an owner's grant to what is left; never raises it.
local function lower(who, owner, depth, left)
  if left >= depth then
    return
  end
  if not many then
    redis.call('HSET', lease, owner, left)
    return
  end
  local part = '\3' .. who .. ':' .. owner
  local rest = string.match(redis.call('HGET', lease, part), '^%d+ (.*)$')
  redis.call('HSET', lease, part, left .. ' ' .. rest)
  redis.call('HINCRBY', lease, owner, left - depth)
end

-- Counts an owner's grant in or out of what is taken.
local function count_in(mode)
  local kind = string.sub(mode, 1, 1)
  if kind == 'p' then
    local take, of = permits(mode)
    if class == 'p' and of ~= limit then
      mixed = '1'
    end
    limit = class == 'p' and math.min(limit, of) or of
    taken = taken + take
  end
  class = kind
end

local function count_out(mode)
  if class ~= 'p' then
    return
  end
  taken = taken - permits(mode)
  if mixed == '1' then
    -- The smallest number may have left: look at all that are left.
    limit = nil
    local all = redis.call('HGETALL', lease)
    for i = 1, #all, 2 do
      local kind = string.byte(all[i], 1)
      if (kind == 2 or kind == 4) then
        local _, of = permits(string.match(all[i + 1], '^%d+ (.+)$'))
        limit = limit and math.min(limit, of) or of
      end
    end
    limit = limit or 0
  end
end

-- Makes the keys last for at least so long, and for as long as the last lease of all.
local function last_for(ttl)
  if redis.call('PTTL', lease) < ttl then
    -- If somebody took the expiry away by hand, others may last longer.
    local latest = redis.call('ZRANGE', ends, -1, -1, 'WITHSCORES')[2]
    redis.call('PEXPIREAT', lease, latest)
    redis.call('PEXPIREAT', ends, latest)
  end
end

-- When the first lease ends that is not renewed.
local function first_end()
  if not head then
    return now
  end
  if many then
    local first = redis.call('ZRANGE', ends, 0, 0, 'WITHSCORES')[2]
    if first then
      return tonumber(first)
    end
  end
  if not plain_end then
    local left = redis.call('PTTL', lease)
    -- Somebody took the expiry away by hand: look again before long.
    plain_end = now + (left >= 0 and left or 1000)
  end
  return plain_end
end

-- Turns the one plain lease into the first of many.
local function spread()
  local all = redis.call('HGETALL', lease)
  local fence, who, flag, about = string.match(head, '^(%d+) (%S+) .(.) (.*)$')
  local first = first_end()
  local owner, depth = all[1], all[2]
  if owner == '\1' then
    owner, depth = all[3], all[4]
  end
  local id = who .. ':' .. owner
  redis.call('DEL', ends)
  -- A fence may be ahead of the time, if many were set aside.
  local since = text(math.min(tonumber(fence), now_us))
  redis.call('HSET', lease, '\2' .. owner, fence .. ' x', '\3' .. id, depth .. ' ' .. since .. ' ' .. about)
  redis.call('ZADD', ends, first, id)
  redis.call('PEXPIREAT', ends, first)
  if flag == 'w' then
    redis.call('HSET', lease, '\5', id)
  end
  many, class, taken, limit, mixed = true, 'x', 0, 0, '0'
  save()
end

-- Gives an owner a lease, or changes the one it has; `fence` is its grant's.
local function put(who, owner, fence, place)
  local ttl = place.ttl
  if not head and place.mode == 'x' then
    local flag = redis.call('EXISTS', line) == 1 and 'l' or '-'
    head = fence .. ' ' .. who .. ' ' .. flag .. place.tell .. ' ' .. place.about
    redis.call('HSET', lease, owner, place.depth, '\1', head)
    redis.call('PEXPIRE', lease, ttl)
    plain_end = now + ttl
    return
  end
  local before = depth_of(who, owner)
  if head and not many then
    if before then
      redis.call('HSET', lease, owner, place.depth)
      redis.call('PEXPIRE', lease, ttl)
      plain_end = now + ttl
      return
    end
    spread()
  elseif not head then
    redis.call('DEL', ends)
    many, class, taken, limit, mixed = true, 'x', 0, 0, '0'
  end
  local id = who .. ':' .. owner
  if before then
    local rest = string.match(redis.call('HGET', lease, '\3' .. id), '^%d+ (.*)$')
    redis.call('HSET', lease, '\3' .. id, place.depth .. ' ' .. rest)
    redis.call('HINCRBY', lease, owner, place.depth - before)
  else
    if redis.call('HSETNX', lease, '\2' .. owner, fence .. ' ' .. place.mode) == 1 then
      count_in(place.mode)
    end
    redis.call('HSET', lease, '\3' .. id, place.depth .. ' ' .. text(now_us) .. ' ' .. place.about)
    redis.call('HINCRBY', lease, owner, place.depth)
    if place.tell == 'w' then
      local others = redis.call('HGET', lease, '\5')
      redis.call('HSET', lease, '\5', others and others .. '\n' .. id or id)
    end
  end
  redis.call('ZADD', ends, now + ttl, id)
  last_for(ttl)
  save()
end

-- Writes down who is still to be told when others ask.
local function set_told(ids)
  if #ids > 0 then
    redis.call('HSET', lease, '\5', table.concat(ids, '\n'))
  else
    redis.call('HDEL', lease, '\5')
  end
end

-- Who has gone is not told any more, nor of its next grant because it asked for it with this one.
local function untell(id)
  local told, left = redis.call('HGET', lease, '\5'), {}
  if not told then
    return
  end
  for other in string.gmatch(told, '[^\n]+') do
    if other ~= id then
      left[#left + 1] = other
    end
  end
  set_told(left)
end

-- Ends one lease; `key` is the owner, or "<fence>:<owner>" for a name that is kept for nobody.
local function drop(who, key)
  if not many then
    redis.call('DEL', lease)
    head = nil
    return
  end
  local id = who .. ':' .. key
  local depth = string.match(redis.call('HGET', lease, '\3' .. id) or '0', '^%d+')
  redis.call('HDEL', lease, '\3' .. id)
  redis.call('ZREM', ends, id)
  untell(id)
  if who == '!' then
    local fence, mode = string.match(redis.call('HGET', lease, '\4' .. key), '^(%d+) (.+)$')
    redis.call('HDEL', lease, '\4' .. key)
    -- Another client of the same owner may still have the same grant.
    local grant = redis.call('HGET', lease, '\2' .. string.match(key, '^%d+:(.*)$'))
    if not grant or string.match(grant, '^%d+') ~= fence then
      count_out(mode)
    end
  elseif redis.call('HINCRBY', lease, key, -depth) <= 0 then
    local fence, mode = string.match(redis.call('HGET', lease, '\2' .. key), '^(%d+) (.+)$')
    redis.call('HDEL', lease, key, '\2' .. key)
    if redis.call('HEXISTS', lease, '\4' .. fence .. ':' .. key) == 0 then
      count_out(mode)
    end
  end
  if redis.call('ZCARD', ends) == 0 then
    redis.call('DEL', lease, ends)
    head, many = nil, false
  else
    save()
  end
end

-- Keeps a name taken by nobody after its release.
local function keep(who, owner, fence, mode, ttl)
  if not many then
    head = string.gsub(head, '^(%d+) %S+ (.).', '%1 ! %2-')
    redis.call('HSET', lease, owner, '0', '\1', head)
    redis.call('PEXPIRE', lease, ttl)
    plain_end = now + ttl
    return
  end
  local key = fence .. ':' .. owner
  local about = string.match(redis.call('HGET', lease, '\3' .. who .. ':' .. owner), '^%d+ (.*)$')
  redis.call('HSET', lease, '\3!:' .. key, '0 ' .. about, '\4' .. key, fence .. ' ' .. mode)
  redis.call('ZADD', ends, 'GT', now + ttl, '!:' .. key)
  last_for(ttl)
  drop(who, owner)
end

-- Ends what has run out; a plain lease does so by itself.
local function sweep()
  if not many then
    return
  end
  for _, id in ipairs(redis.call('ZRANGEBYSCORE', ends, '-inf', now)) do
    drop(string.match(id, '^([^:]+):(.*)$'))
  end
end

local function place_of(id)
  local place = redis.call('HGET', places, id)
  if not place then
    return nil
  end
  local mode, depth, life, fences, ttl, tell, asked, asks, deadline, about =
    string.match(place, '^(%S+) (%d+) (%a) (%d+) (%d+) (%S) (%d+) (%d+) (%d+) (.*)$')
  return {
    mode = mode, depth = tonumber(depth), life = life, fences = tonumber(fences), ttl = tonumber(ttl), tell = tell,
    asked = tonumber(asked), asks = tonumber(asks), deadline = tonumber(deadline), about = about,
  }
end

local function set_place(id, place)
  redis.call('HSET', places, id, table.concat({
    place.mode, place.depth, place.life, place.fences, text(place.ttl), place.tell, text(place.asked),
    text(place.asks), text(place.deadline), place.about,
  }, ' '))
end

local function leave(id)
  if redis.call('LREM', line, 1, id) == 1 then
    redis.call('HDEL', places, id, '\1' .. string.match(id, '^[^:]+:(.*)$'))
    if redis.call('EXISTS', line) == 0 then
      redis.call('DEL', places)
    end
  end
end

-- Tells a client; returns whether it listens, as far as that can be known.
local function tell(who, message)
  return redis.call('PUBLISH', inbox .. who, message .. '\n' .. lease) > 0 or confirm > 0
end

-- Whether a client is known to be away.
local function is_away(who)
  return confirm == 0 and redis.call('PUBSUB', 'NUMSUB', inbox .. who)[2] == 0
end

-- A place whose owner has the name already, in another client.
local function entering()
  if not head or redis.call('HEXISTS', places, '\2') == 0 then
    return nil
  end
  for _, id in ipairs(redis.call('LRANGE', line, 0, -1)) do
    local place = place_of(id)
    local _, held = grant_of(string.match(id, '^[^:]+:(.*)$'))
    if place and covers(held, place.mode) then
      return id
    end
  end
end

-- Lets everybody in whose turn it is; `own` is granted by the answer instead of a message.
-- Returns whether nobody who listens is left in line.
local function let_in(own)
  sweep()
  local skipped = 0
  while true do
    local beside = entering()
    local id = beside or redis.call('LINDEX', line, skipped)
    if not id then
      return true
    end
    local place = place_of(id)
    if not place or place.deadline <= now then
      leave(id)
    elseif not beside and not fits(place.mode) then
      -- Those behind who would fit wait for the living alone.
      if not many or class == 'x' or id == own or not is_away(string.match(id, '^[^:]+')) then
        return false
      end
      skipped = skipped + 1
    else
      local who, owner = string.match(id, '^([^:]+):(.*)$')
      local fence, held = grant_of(owner)
      if fence then
        place.mode = held
      else
        fence = text(reserve(place.fences))
      end
      local listens = true
      if id ~= own and confirm > 0 then
        place.ttl = math.min(place.ttl, confirm)
        tell(who, 'a')
      elseif id ~= own then
        listens = tell(who, 'g ' .. fence .. ' ' .. text(now_us - place.asked) .. ' ' .. owner)
      end
      if listens or beside then
        leave(id)
      end
      if listens then
        put(place.life == 'c' and who or '-', owner, fence, place)
      end
      if beside then
        -- If its client is away, it goes in when it asks again. It may have stood anywhere.
        skipped = 0
      elseif not listens then
        -- Its client is away, and keeps its place for when it is back.
        skipped = skipped + 1
      end
    end
  end
end

-- Tells those holders who asked for it, once each, that another client wants the name.
local function call_back(wanting)
  if not head then
    return
  end
  if not many then
    local fence, who, flag, about = string.match(head, '^(%d+) (%S+) (.)w (.*)$')
    if fence and who ~= wanting then
      head = fence .. ' ' .. who .. ' ' .. flag .. '- ' .. about
      redis.call('HSET', lease, '\1', head)
      for _, field in ipairs(redis.call('HKEYS', lease)) do
        if string.byte(field, 1) > 31 then
          tell(who, 'w ' .. fence .. ' ' .. field)
        end
      end
    end
    return
  end
  local told, left, called = redis.call('HGET', lease, '\5'), {}, {}
  if not told then
    return
  end
  for id in string.gmatch(told, '[^\n]+') do
    local who, owner = string.match(id, '^([^:]+):(.*)$')
    if who == wanting then
      left[#left + 1] = id
    else
      called[#called + 1] = { who, owner }
    end
  end
  if #called > 0 then
    set_told(left)
  end
  for _, holder in ipairs(called) do
    local fence = grant_of(holder[2])
    tell(holder[1], 'w ' .. fence .. ' ' .. holder[2])
  end
end

-- After a change: marks a plain lease that is waited for, and tells the first in line to ask
-- again if a lease may now end before it would.
local function settle()
  local waited = redis.call('EXISTS', line) == 1
  if not waited then
    return
  end
  local tells = many and redis.call('HEXISTS', lease, '\5') == 1
  if head and not many then
    local before, waited_for, tell_flag, about = string.match(head, '^(%d+ %S+ )(.)(.)( .*)$')
    if waited_for == '-' then
      head = before .. 'l' .. tell_flag .. about
      redis.call('HSET', lease, '\1', head)
    end
    tells = tell_flag == 'w'
  end
  if tells then
    for _, id in ipairs(redis.call('LRANGE', line, 0, -1)) do
      call_back(string.match(id, '^[^:]+'))
    end
  end
  local latest = tonumber(redis.call('HGET', places, '\3') or 0)
  local soonest = first_end()
  if latest <= soonest then
    return
  end
  for _, id in ipairs(redis.call('LRANGE', line, 0, -1)) do
    local place = place_of(id)
    if place then
      if place.asks <= soonest then
        return
      end
      place.asks = soonest
      set_place(id, place)
      if tell(string.match(id, '^[^:]+'), 'a') then
        return
      end
    end
  end
end

-- Why an owner does not hold the name.
local function why_not(owner)
  if not head then
    return 'gone'
  end
  for _, field in ipairs(redis.call('HKEYS', lease)) do
    local first = string.byte(field, 1)
    local other = first > 31 and field
    if first == 4 then
      other = string.match(field, '^%c%d+:(.*)$')
    end
    if other and other ~= owner then
      return 'taken'
    end
  end
  return 'gone'
end
