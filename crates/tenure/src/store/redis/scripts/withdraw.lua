-- withdraw.lua: undo a claim, whatever became of it.
--
-- KEYS and ARGV[1] as in ledger.lua, and
-- ARGV[2]  the owner
-- ARGV[3]  the session of the client that asks, or - if the lease was to belong to no client
-- ARGV[4]  the depth that the claim asked for; afterwards the owner has one less, at most
--
-- Returns nothing. Another owner's lease or place is never changed.

open(KEYS[1])
local owner, who = ARGV[2], ARGV[3]
leave(session .. ':' .. owner)
local depth = grant_of(owner) and depth_of(who, owner)
if depth then
  local left = tonumber(ARGV[4]) - 1
  if left <= 0 then
    drop(who, owner)
  else
    lower(who, owner, depth, left)
  end
end
let_in()
settle()
