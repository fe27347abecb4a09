-- ledger.lua: the rules of one name, shared by the scripts that change it.
--
-- KEYS[1]  the lease: a hash that expires with the last lease on the name. An owner's field is the number of its
--          claims that hold the name; a claim without an owner is its own owner. All other fields begin with a
--          control character, which neither owners nor claims contain.
--          One exclusive claim without an owner ("plain"); its field is 1, or 0 while the name stays taken by
--          nobody:
--            \1           "<fence> <who> <line><tell> <about>": `who` is the session of the holder's client,
--                         `-` for a lease of no client, `!` for a name that stays taken by nobody; <line> is
--                         `l` if somebody waits in line, <tell> is `w` if the holder asks to be told of that,
--                         otherwise each is `-`
--          All other cases ("many"):
--            \1           "M <class> <taken> <limit> <mixed>": x, s or p; permits taken, the smallest number
--                         of permits, and whether that number differs between grants
--            \2<owner>    "<fence> <mode>", the owner's grant, which its claims share
--            \3<id>       "<fence> <fences> <since> <about>", a claim's lease; id is "<who>:<claim>"; <fences>
--                         is 0 if the claim joined another of its owner; <about> ends with a line break and
--                         the owner, if the claim has one
--            \3!:<claim>  the same for a claim after whose release the name stays taken by nobody
--            \4<fence>    "<count> <mode>": how many of the latter have this fence
--            \5           the ids, one per line, of the claims to be told when others want the name
--
-- Four more keys begin with the lease's key and therefore share its {hash tag}. In a cluster, clients pass them
-- as KEYS[2..5], so that the cluster never runs a script while only some of them have moved to another node:
--   :line    a list of ids "<session>:<claim>", first come first
--   :places  a hash, id -> "<mode> <life> <fences> <ttl> <tell> <asked> <asks> <deadline> <about>"; \1<owner>
--            is the id of the last place of a named owner; \2 exists if such an owner has more than one place;
--            \3 is the latest time at which anybody in line asks again; \4 is until when line and places are
--            kept
--   :ends    a sorted set, id -> when that lease ends; only with "many"
--   :fence   the last reserved fence; expires long after its last use
--
-- ARGV[1]  "<session> <confirm> <memory> <inbox>": the session of the requesting client; 0 if the server knows
--          who listens to an inbox, otherwise for how many milliseconds a lease is handed over until its new
--          holder confirms it by asking again; how many milliseconds to remember the last fence; and the
--          prefix of all inboxes, which the session follows
--
-- Times are the server's, in milliseconds; fences, since and asked are in microseconds. A write that a
-- server without free memory may refuse never follows a PUBLISH, unless the script has written before.

local lease, line, places, ends, last
local session, confirm, memory, inbox = string.match(ARGV[1], '^(%S+) (%d+) (%d+) (.*)$')
confirm = tonumber(confirm)
local time = redis.call('TIME')
local now_us = time[1] * 1000000 + time[2]
local now = math.floor(now_us / 1000)

-- The state of the open name: `head` is nil while nobody has it.
local head, many, class, taken, limit, mixed
-- When the plain lease ends, if this script has set that.
local plain_end
-- Since when the next claim has its lease: claims that are granted together are listed in the order of
-- the line.
local since = now_us

local function text(number)
  return string.format('%.0f', number)
end

local function open(key)
  lease, line, places, ends, last = key, key .. ':line', key .. ':places', key .. ':ends', key .. ':fence'
  head = redis.call('HGET', lease, '\1') or nil
  many, plain_end = false, nil
  if head and string.sub(head, 1, 1) == 'M' then
    many = true
    local t, l
    class, t, l, mixed = string.match(head, '^M (%a) (%d+) (%d+) (%d)$')
    taken, limit = tonumber(t), tonumber(l)
  end
end

-- Saves what is taken, and other fields with it.
local function save(...)
  head = 'M ' .. class .. ' ' .. text(taken) .. ' ' .. text(limit) .. ' ' .. mixed
  redis.call('HSET', lease, '\1', head, ...)
end

local function permits(mode)
  local take, of = string.match(mode, '^p(%d+)/(%d+)$')
  return tonumber(take), tonumber(of)
end

-- Returns whether a holder in one mode may re-enter in another.
local function covers(held, asked)
  return held == asked or (held == 'x' and asked == 's')
end

-- Returns whether a new owner can hold the name beside the current holders.
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

-- Reserves this many fences, starting at a number or at the current time, and returns the first.
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

-- Returns the fence and the mode of a named owner's grant, whichever of its claims have it.
local function grant_of(owner)
  local grant = many and owner and redis.call('HGET', lease, '\2' .. owner)
  if grant then
    return string.match(grant, '^(%d+) (.+)$')
  end
end

-- Returns the fence of a claim's lease, and with "many" how many were reserved with it.
local function lease_of(who, claim)
  if many then
    local part = redis.call('HGET', lease, '\3' .. who .. ':' .. claim)
    return string.match(part or '', '^(%d+) (%d+)')
  end
  local fence, holder = string.match(head or '', '^(%d+) (%S+)')
  if holder == who and redis.call('HEXISTS', lease, claim) == 1 then
    return fence
  end
end

-- Returns the owner at the end of `about`.
local function owner_in(about)
  return string.match(about, '\n(.*)$')
end

-- Adds an owner's grant to what is taken; `count_out` removes it.
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
    -- The grant with the smallest number may have left: check all that are left.
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

-- Makes the keys last at least this long, and as long as the last lease of all.
local function last_for(ttl)
  if redis.call('PTTL', lease) < ttl then
    -- If somebody removed the expiry by hand, other leases may last longer.
    local latest = redis.call('ZRANGE', ends, -1, -1, 'WITHSCORES')[2]
    redis.call('PEXPIREAT', lease, latest)
    redis.call('PEXPIREAT', ends, latest)
  end
end

-- Returns when the first lease ends unless renewed.
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
    -- Somebody removed the expiry by hand: look again before long.
    plain_end = now + (left >= 0 and left or 1000)
  end
  return plain_end
end

-- Restarts the ttl of a claim's lease.
local function restart(who, claim, ttl)
  if many then
    redis.call('ZADD', ends, now + ttl, who .. ':' .. claim)
    last_for(ttl)
  else
    redis.call('PEXPIRE', lease, ttl)
    plain_end = now + ttl
  end
end

-- Gives a claim a lease, with the number of fences that were reserved for it.
local function put(who, claim, fence, fences, place)
  if not head and place.mode == 'x' and not place.owner then
    local flag = redis.call('EXISTS', line) == 1 and 'l' or '-'
    head = fence .. ' ' .. who .. ' ' .. flag .. place.tell .. ' ' .. place.about
    redis.call('HSET', lease, claim, 1, '\1', head)
    restart(who, claim, place.ttl)
    return
  end
  if not head then
    redis.call('DEL', ends)
    many, class, taken, limit, mixed = true, 'x', 0, 0, '0'
  end
  local id, owner = who .. ':' .. claim, place.owner or claim
  local part = fence .. ' ' .. fences .. ' ' .. text(since) .. ' ' .. place.about
  since = since + 1
  if redis.call('HINCRBY', lease, owner, 1) == 1 then
    count_in(place.mode)
    save('\2' .. owner, fence .. ' ' .. place.mode, '\3' .. id, part)
  else
    redis.call('HSET', lease, '\3' .. id, part)
  end
  if place.tell == 'w' then
    local others = redis.call('HGET', lease, '\5')
    redis.call('HSET', lease, '\5', others and others .. '\n' .. id or id)
  end
  restart(who, claim, place.ttl)
end

-- Saves which claims are still to be told when others want the name.
local function set_told(ids)
  if #ids > 0 then
    redis.call('HSET', lease, '\5', table.concat(ids, '\n'))
  else
    redis.call('HDEL', lease, '\5')
  end
end

-- Removes a claim that has gone from those to be told. For its next grant, it has to ask for that again.
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

-- Ends one lease; returns how many claims of its owner are left.
local function drop(who, claim)
  local id, left = who .. ':' .. claim, 0
  if many then
    redis.call('ZREM', ends, id)
  end
  if not many or redis.call('ZCARD', ends) == 0 then
    redis.call('DEL', lease, ends)
    head, many = nil, false
    return 0
  end
  local part = redis.call('HGET', lease, '\3' .. id)
  redis.call('HDEL', lease, '\3' .. id)
  untell(id)
  local owner = owner_in(part) or claim
  if who == '!' then
    local fence = string.match(part, '^%d+')
    local count, mode = string.match(redis.call('HGET', lease, '\4' .. fence), '^(%d+) (.+)$')
    if count ~= '1' then
      redis.call('HSET', lease, '\4' .. fence, (count - 1) .. ' ' .. mode)
    else
      redis.call('HDEL', lease, '\4' .. fence)
      -- Other claims of its owner may still share the grant.
      local grant = redis.call('HGET', lease, '\2' .. owner)
      if not grant or string.match(grant, '^%d+') ~= fence then
        count_out(mode)
      end
    end
  else
    left = redis.call('HINCRBY', lease, owner, -1)
    if left == 0 then
      local fence, mode = string.match(redis.call('HGET', lease, '\2' .. owner), '^(%d+) (.+)$')
      redis.call('HDEL', lease, owner, '\2' .. owner)
      if redis.call('HEXISTS', lease, '\4' .. fence) == 0 then
        count_out(mode)
      end
    end
  end
  save()
  return left
end

-- Keeps a name taken by nobody after a claim's release; returns how many claims of its owner are left.
local function keep(who, claim, ttl)
  if not many then
    head = string.gsub(head, '^(%d+) %S+ (.).', '%1 ! %2-')
    redis.call('HSET', lease, claim, '0', '\1', head)
    restart('!', claim, ttl)
    return 0
  end
  if redis.call('HEXISTS', lease, '\3!:' .. claim) == 1 then
    -- The claim was requested again after its release.
    drop('!', claim)
  end
  local part = redis.call('HGET', lease, '\3' .. who .. ':' .. claim)
  local fence, rest = string.match(part, '^(%d+) %d+ (.*)$')
  local mode = string.match(redis.call('HGET', lease, '\2' .. (owner_in(part) or claim)), '^%d+ (.+)$')
  local count = string.match(redis.call('HGET', lease, '\4' .. fence) or '0', '^%d+')
  redis.call('HSET', lease, '\3!:' .. claim, fence .. ' 0 ' .. rest, '\4' .. fence, (count + 1) .. ' ' .. mode)
  restart('!', claim, ttl)
  return drop(who, claim)
end

-- Ends expired leases, and returns whether there is room that nobody was granted. A plain lease expires
-- by itself.
local function sweep()
  local over = many and redis.call('ZRANGEBYSCORE', ends, '-inf', now) or {}
  for _, id in ipairs(over) do
    drop(string.match(id, '^([^:]+):(.*)$'))
  end
  return #over > 0 or not head
end

local function place_of(id)
  local mode, life, fences, ttl, tell, asked, asks, deadline, about =
    string.match(redis.call('HGET', places, id) or '', '^(%S+) (%a) (%d+) (%d+) (%S) (%d+) (%d+) (%d+) (.*)$')
  return mode and {
    mode = mode, life = life, fences = tonumber(fences), ttl = tonumber(ttl), tell = tell, asked = tonumber(asked),
    asks = tonumber(asks), deadline = tonumber(deadline), about = about, owner = owner_in(about),
  }
end

local function set_place(id, place)
  redis.call('HSET', places, id, table.concat({
    place.mode, place.life, place.fences, text(place.ttl), place.tell, text(place.asked), text(place.asks),
    text(place.deadline), place.about,
  }, ' '))
end

-- Removes a claim from the line; `place` is its place, if there is one.
local function leave(id, place)
  if redis.call('LREM', line, 1, id) == 1 then
    redis.call('HDEL', places, id, '\1' .. (place and place.owner or ''))
    if redis.call('EXISTS', line) == 0 then
      redis.call('DEL', places)
    end
  end
end

local function tell(who, message)
  redis.call('PUBLISH', inbox .. who, message .. '\n' .. lease)
end

-- Returns whether a client is known to be away. PUBLISH would also count clients that listen to a
-- pattern.
local function is_away(who)
  return confirm == 0 and redis.call('PUBSUB', 'NUMSUB', inbox .. who)[2] == 0
end

-- Returns a place whose owner already has the name through another claim.
local function entering()
  if not many or redis.call('HEXISTS', places, '\2') == 0 then
    return nil
  end
  for _, id in ipairs(redis.call('LRANGE', line, 0, -1)) do
    local place = place_of(id)
    local _, held = grant_of(place and place.owner)
    if place and covers(held, place.mode) then
      return id
    end
  end
end

-- Grants all claims whose turn it is. `own`, if given, learns of its grant from the reply instead of a
-- message. Returns whether no claim of a listening client is left in line.
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
    local fence, held = grant_of(place and place.owner)
    if not place or place.deadline <= now then
      leave(id, place)
    elseif not beside and (fence or not fits(place.mode)) then
      -- An owner that already has the name in another mode would share a grant that it did not ask for.
      -- Claims behind it that would fit wait only for live clients.
      if not many or class == 'x' or id == own or not is_away(string.match(id, '^[^:]+')) then
        return false
      end
      skipped = skipped + 1
    else
      local who, claim = string.match(id, '^([^:]+):(.*)$')
      local listens = id == own or not is_away(who)
      local fences = 0
      if beside then
        place.mode = held
      else
        fence, fences = text(reserve(place.fences)), place.fences
      end
      if id ~= own and confirm > 0 then
        place.ttl = math.min(place.ttl, confirm)
        tell(who, 'a')
      elseif id ~= own and listens then
        tell(who, table.concat({
          'g', fence, math.max(fences, 1), text(place.ttl), text(now_us - place.asked), claim,
        }, ' '))
      end
      if listens or beside then
        leave(id, place)
      end
      if listens then
        put(place.life == 'c' and who or '-', claim, fence, fences, place)
      end
      if beside then
        -- If its client is away, it is granted when it asks again. It may have been anywhere in line.
        skipped = 0
      elseif not listens then
        -- Its client is away, and keeps its place until it is back.
        skipped = skipped + 1
      end
    end
  end
end

-- Tells the holders that asked for it, once each, that another client wants the name.
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
    local who, claim = string.match(id, '^([^:]+):(.*)$')
    if who == wanting then
      left[#left + 1] = id
    else
      called[#called + 1] = { who, claim }
    end
  end
  if #called > 0 then
    set_told(left)
  end
  for _, holder in ipairs(called) do
    local fence = lease_of(holder[1], holder[2])
    tell(holder[1], 'w ' .. fence .. ' ' .. holder[2])
  end
end

-- After a change: marks a plain lease that others wait for, and tells the first in line to ask again if
-- a lease may now end before the time at which it would.
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
      local who = string.match(id, '^[^:]+')
      if not is_away(who) then
        tell(who, 'a')
        return
      end
    end
  end
end

-- Returns why a claim does not hold the name.
local function why_not(claim)
  for _, field in ipairs(redis.call('HKEYS', lease)) do
    local other = string.match(field, many and '^\3[^:]+:(.*)$' or '^[^%c].*$')
    if other and other ~= claim then
      return 'taken'
    end
  end
  return 'gone'
end
