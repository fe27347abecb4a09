-- release.lua: lower a lease to a depth, or free it and hand the name to whoever is next in line.
--
-- KEYS and ARGV[1] as in ledger.lua, and
-- ARGV[2]  the owner
-- ARGV[3]  the session of the client that asks, or - if the lease belongs to no client
-- ARGV[4]  the fence of the grant, or empty for any
-- ARGV[5]  0 to free the lease; or "<depth> <time>": the depth to keep, or 0 and for how many
--          milliseconds the name stays taken by nobody
--
-- Returns "freed" or "lowered", or why the owner does not hold the name: "taken" or "gone". Another
-- owner's lease is never changed.

open(KEYS[1])
local owner, who = ARGV[2], ARGV[3]
if freed then
  let_in()
  settle()
  return 'freed'
end
-- Others go in after the release, in one step with it; what has run out is over before.
sweep()
if not head then
  let_in()
end
local fence, mode = grant_of(owner)
local depth = fence and depth_of(who, owner)
if not depth or (ARGV[4] ~= '' and ARGV[4] ~= fence) then
  let_in()
  settle()
  return why_not(owner)
end

local answer = 'freed'
local keep_depth, stays = string.match(ARGV[5], '^(%d+) ?(%d*)$')
keep_depth = tonumber(keep_depth)
if keep_depth > 0 then
  answer = 'lowered'
  lower(who, owner, depth, keep_depth)
elseif stays ~= '' then
  keep(who, owner, fence, mode, tonumber(stays))
else
  drop(who, owner)
end
let_in()
settle()
return answer
