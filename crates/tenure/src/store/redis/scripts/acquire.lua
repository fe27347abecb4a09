-- acquire.lua: grant a claim, queue it, or report that the name is taken.
--
-- KEYS and ARGV[1] as in ledger.lua, and
-- ARGV[2]  the claim
-- ARGV[3]  "<who> -<tell> <about>": the session of the requesting client, or - if the lease shall belong to no
--          client; w if the holder asks to be told when somebody else wants the name, else -; and the process,
--          machine and reason, for people. If the claim has an owner, a line break and the owner follow
-- ARGV[4]  the ttl in milliseconds
-- ARGV[5]  how many fences to reserve
-- ARGV[6]  how many milliseconds to remember the last fence
-- ARGV[7]  the mode: x, s, or p<take>/<of>; x if omitted
-- ARGV[8]  0 not to wait in line; 1 or omitted to wait
-- ARGV[9]  on one of several voting servers: the smallest fence to assign, also to a grant that was handed
--          over; otherwise omitted
-- ARGV[10] "exactly" if the fence must be exactly ARGV[9], with which the claim has won the vote. An existing
--          lease of the claim gets this number, unless its own is larger and therefore not one that the claim
--          knows. A new grant is made only if neither this number nor a larger one was ever assigned
--
-- Returns one of:
--   "<fence>[ <clock>][ joins]"  a grant; the server's clock if ARGV[9] is given; "joins" if the claim joined
--                                another of its owner, and no more fences are reserved for it
--   0                            the name is taken
--   -n                           a place in line, to be asked for again in n - 1 milliseconds
--   "conflict"                   the owner has the name in another mode
-- Repeating the request for the same claim changes only the ttl, and on a voting server the fence.

open(KEYS[1])
local claim, mode, stands = ARGV[2], ARGV[7] or 'x', ARGV[8] ~= '0'
local who, tell_flag, about = string.match(ARGV[3], '^(%S+) .(.) (.*)$')
local own, owner = session .. ':' .. claim, owner_in(about)
local place = {
  mode = mode, life = who == '-' and 't' or 'c', fences = tonumber(ARGV[5]), ttl = tonumber(ARGV[4]),
  tell = tell_flag, asked = now_us, about = about, owner = owner,
}

-- The number that won the vote, and the reply to a voter.
local won = ARGV[10] and tonumber(ARGV[9])
local function granted(fence, fences)
  local clock = ARGV[9] and ' ' .. text(now_us) or ''
  return fence .. clock .. (tonumber(fences) == 0 and ' joins' or '')
end

local function last_fence()
  return tonumber(redis.call('GET', last) or 0) or 0
end

-- Assigns another number to the claim's lease, and to its owner's grant unless that has a larger one.
local function number_anew(fence)
  if not many then
    head = string.gsub(head, '^%d+', fence, 1)
    redis.call('HSET', lease, '\1', head)
    return
  end
  local part, grant = '\3' .. who .. ':' .. claim, '\2' .. (owner or claim)
  local values = redis.call('HMGET', lease, part, grant)
  redis.call('HSET', lease, part, (string.gsub(values[1], '^%d+', fence, 1)))
  if tonumber(string.match(values[2], '^%d+')) < tonumber(fence) then
    redis.call('HSET', lease, grant, (string.gsub(values[2], '^%d+', fence, 1)))
  end
end

local waiting = place_of(own)
if waiting and not redis.call('LPOS', line, own) then
  -- The server or an operator removed the line, and a place that is not in a line would never have its
  -- turn.
  redis.call('HDEL', places, own)
  waiting = nil
end
if waiting and stands then
  -- The client is alive, however late it asks.
  waiting.deadline = now + 1
  set_place(own, waiting)
end
-- If the claim is granted here, its lease is found below.
local nobody = let_in(own)

local fence, fences = lease_of(who, claim)
local has, held = fence, nil
if not has then
  fence, held = grant_of(owner)
  fences = 0
end
if has or covers(held, mode) then
  if won and tonumber(fence) > won then
    settle()
    return 0
  end
  if has then
    restart(who, claim, place.ttl)
  else
    -- Its client may have been away when another claim of its owner passed it.
    leave(own, waiting)
    place.mode = held
    put(who, claim, fence, fences, place)
  end
  if won then
    fence = ARGV[9]
    number_anew(fence)
    if last_fence() < won + place.fences - 1 then
      redis.call('SET', last, text(won + place.fences - 1), 'PX', memory)
    end
  elseif ARGV[9] and who ~= '-' then
    if redis.call('HGET', lease, owner or claim) == '1' then
      -- The lease was handed over before others got their numbers, and its number has not won yet.
      fence = text(reserve(place.fences, tonumber(ARGV[9])))
    else
      -- Claims that share a grant have its number, which one of them may have won meanwhile.
      fence = grant_of(owner)
    end
    number_anew(fence)
  end
  settle()
  return granted(fence, fences)
end

if not waiting and held then
  settle()
  return 'conflict'
end
if nobody and fits(mode) and not (won and last_fence() >= won) then
  if won then
    fence = ARGV[9]
    redis.call('SET', last, text(won + place.fences - 1), 'PX', memory)
  else
    fence = text(reserve(place.fences, tonumber(ARGV[9])))
  end
  put(who, claim, fence, place.fences, place)
  settle()
  return granted(fence)
end
if not stands then
  call_back(session)
  settle()
  return 0
end

local asks = first_end()
if confirm > 0 then
  asks = math.min(asks, now + confirm)
end
-- Live clients ask again in time. A client that does not is dead.
local grace = confirm > 0 and confirm or 10000
local deadline = asks + grace + math.floor((asks - now) / 10)
if waiting then
  waiting.ttl, waiting.asks, waiting.deadline = place.ttl, asks, deadline
  set_place(own, waiting)
else
  place.asks, place.deadline = asks, deadline
  redis.call('RPUSH', line, own)
  if owner and redis.call('HSET', places, '\1' .. owner, own) == 0 then
    redis.call('HSET', places, '\2', '1')
  end
  set_place(own, place)
end
if asks > tonumber(redis.call('HGET', places, '\3') or 0) then
  redis.call('HSET', places, '\3', text(asks))
end
-- A line that all its waiters abandoned expires an hour later.
if deadline + 600000 > tonumber(redis.call('HGET', places, '\4') or 0) then
  redis.call('HSET', places, '\4', text(deadline + 3600000))
  redis.call('PEXPIRE', line, text(deadline - now + 3600000))
  redis.call('PEXPIRE', places, text(deadline - now + 3600000))
end
settle()
return -(asks - now) - 1
