-- acquire.lua: grant a claim, or put it in line, or say that the name is taken.
--
-- KEYS and ARGV[1..4] as in ledger.lua, and
-- ARGV[5]  the owner
-- ARGV[6]  c if the lease belongs to the client that asks, t if to no client
-- ARGV[7]  the mode: x, s, or p<take>/<of>
-- ARGV[8]  the depth that the owner wants to have
-- ARGV[9]  the ttl in milliseconds
-- ARGV[10] how many fences to set aside
-- ARGV[11] 1 to stand in line, 0 not to
-- ARGV[12] w if the holder wants to be told when somebody else asks, else -
-- ARGV[13] the process, machine and reason, for people
--
-- Returns the fence; 0 while the name is taken; -n for a place in line, to be asked for again in
-- n - 1 milliseconds; or "conflict" if the owner has or wants the name in another mode.
-- Asking again as the same owner changes nothing but the ttl and the depth that is asked for.

open(1)
local owner, mode = ARGV[5], ARGV[7]
local who = ARGV[6] == 'c' and session or '-'
local own = session .. ':' .. owner
local place = {
  mode = mode, depth = tonumber(ARGV[8]), life = ARGV[6], fences = tonumber(ARGV[10]), ttl = tonumber(ARGV[9]),
  tell = ARGV[12], asked = now_us, about = ARGV[13],
}

local waiting = place_of(own)
if waiting and not redis.call('LPOS', line, own) then
  -- The server or an operator removed the line: a place outside of it would never have its turn.
  redis.call('HDEL', places, own)
  waiting = nil
end
local askable = waiting and covers(waiting.mode, mode) and ARGV[11] == '1'
if askable then
  -- It is alive, however late it asks.
  waiting.deadline = now + 1
  set_place(own, waiting)
end
-- If it is let in here, it enters again below, with what it asks for now.
local nobody = let_in(askable and own or nil)

local fence, held = grant_of(owner)
if fence and covers(held, mode) then
  leave(own)
  place.mode = held
  put(who, owner, fence, place)
  settle()
  return tonumber(fence)
end

waiting = place_of(own)
if waiting and not covers(waiting.mode, mode) or not waiting and fence then
  settle()
  return 'conflict'
end
if not waiting and nobody and fits(mode) then
  fence = text(reserve(place.fences))
  put(who, owner, fence, place)
  settle()
  return tonumber(fence)
end
if ARGV[11] == '0' then
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
local deadline = asks + grace + (asks - now) / 10
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
  -- A line that everybody has left without a word is gone an hour later.
  redis.call('PEXPIRE', line, text(deadline - now + 3600000))
  redis.call('PEXPIRE', places, text(deadline - now + 3600000))
end
settle()
return -(asks - now) - 1
