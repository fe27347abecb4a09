-- acquire.lua: grant a claim, or put it in line, or say that the name is taken.
--
-- KEYS and ARGV[1] as in ledger.lua, and
-- ARGV[2]  the owner
-- ARGV[3]  "<who> -<tell> <about>": the session of the client that asks, or - if the lease is to belong
--          to no client; w if the holder wants to be told when somebody else asks, else -; and the
--          process, machine and reason, for people
-- ARGV[4]  the depth that the owner wants to have
-- ARGV[5]  the ttl in milliseconds
-- ARGV[6]  how many fences to set aside
-- ARGV[7]  for how many milliseconds the last fence is remembered
-- ARGV[8]  the mode: x, s, or p<take>/<of>; x if left out
-- ARGV[9]  0 not to stand in line; 1 or left out to do so
-- ARGV[10] for one of several servers that vote: the smallest fence to give, also to a grant that was
--          handed over; else left out
-- ARGV[11] "exactly" if the fence is to be that very one: the owner has won it by a vote. A grant that is
--          here gets this number, unless its own is larger, and so not the one that the owner knows of;
--          there is a new grant only where this number and all larger ones have never been given
--
-- Returns the fence as text, and behind it the server's clock if ARGV[10] is there; 0 while the name is taken; -n for a place in line, to be asked for again in
-- n - 1 milliseconds; or "conflict" if the owner has or wants the name in another mode.
-- Asking again as the same owner changes nothing but the ttl and the depth that is asked for.

open(KEYS[1])
local owner, mode, stands = ARGV[2], ARGV[8] or 'x', ARGV[9] ~= '0'
local who, tell_flag, about = string.match(ARGV[3], '^(%S+) .(.) (.*)$')
local own = session .. ':' .. owner
local place = {
  mode = mode, depth = tonumber(ARGV[4]), life = who == '-' and 't' or 'c', fences = tonumber(ARGV[6]),
  ttl = tonumber(ARGV[5]), tell = tell_flag, asked = now_us, about = about,
}

-- What a vote was won with, and how a voter is answered.
local won = ARGV[11] and tonumber(ARGV[10])
local function granted(fence)
  return ARGV[10] and fence .. ' ' .. text(now_us) or fence
end

local function last_fence()
  return tonumber(redis.call('GET', last) or 0) or 0
end

-- Gives the owner's grant another number.
local function number_anew(mode, fence)
  if many then
    redis.call('HSET', lease, '\2' .. owner, fence .. ' ' .. mode)
  else
    head = string.gsub(head, '^%d+', fence, 1)
    redis.call('HSET', lease, '\1', head)
  end
end

local waiting = place_of(own)
if waiting and not redis.call('LPOS', line, own) then
  -- The server or an operator removed the line: a place outside of it would never have its turn.
  redis.call('HDEL', places, own)
  waiting = nil
end
local askable = waiting and covers(waiting.mode, mode) and stands
if askable then
  -- It is alive, however late it asks.
  waiting.deadline = now + 1
  set_place(own, waiting)
end
-- If it is let in here, it enters again below, with what it asks for now.
local nobody = let_in(askable and own or nil)

local fence, held = grant_of(owner)
if covers(held, mode) then
  if won and tonumber(fence) > won then
    settle()
    return 0
  end
  leave(own)
  place.mode = held
  if won then
    fence = ARGV[10]
    number_anew(held, fence)
    if last_fence() < won + place.fences - 1 then
      redis.call('SET', last, text(won + place.fences - 1), 'PX', memory)
    end
  elseif ARGV[10] and who ~= '-' and depth_of(who, owner) == tonumber(redis.call('HGET', lease, owner)) then
    -- It was handed over before others got theirs, and its client alone has it and has not won yet.
    fence = text(reserve(place.fences, tonumber(ARGV[10])))
    number_anew(held, fence)
  end
  put(who, owner, fence, place)
  settle()
  return granted(fence)
end

waiting = place_of(own)
if waiting and not covers(waiting.mode, mode) or not waiting and fence then
  settle()
  return 'conflict'
end
if not waiting and nobody and fits(mode) and not (won and last_fence() >= won) then
  if won then
    fence = ARGV[10]
    redis.call('SET', last, text(won + place.fences - 1), 'PX', memory)
  else
    fence = text(reserve(place.fences, tonumber(ARGV[10])))
  end
  put(who, owner, fence, place)
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
-- The living ask again in time; who does not has died.
local grace = confirm > 0 and confirm or 10000
local deadline = asks + grace + math.floor((asks - now) / 10)
if waiting then
  waiting.ttl, waiting.asks, waiting.deadline = place.ttl, asks, deadline
  set_place(own, waiting)
else
  place.asks, place.deadline = asks, deadline
  redis.call('RPUSH', line, own)
  if redis.call('HSETNX', places, '\1' .. owner, own) == 0 then
    redis.call('HSET', places, '\2', '1')
  end
  set_place(own, place)
end
if asks > tonumber(redis.call('HGET', places, '\3') or 0) then
  redis.call('HSET', places, '\3', text(asks))
end
-- A line that everybody has left without a word is gone an hour later.
if deadline + 600000 > tonumber(redis.call('HGET', places, '\4') or 0) then
  redis.call('HSET', places, '\4', text(deadline + 3600000))
  redis.call('PEXPIRE', line, text(deadline - now + 3600000))
  redis.call('PEXPIRE', places, text(deadline - now + 3600000))
end
settle()
return -(asks - now) - 1
