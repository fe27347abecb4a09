-- withdraw.lua: undo a claim, whatever became of it.
--
-- KEYS and ARGV[1] as in ledger.lua, and
-- ARGV[2]  the claim
-- ARGV[3]  the session of the client that asks, or - if the lease was to belong to no client
--
-- Returns nothing. Another claim's lease or place is never changed.

open(KEYS[1])
local claim, who = ARGV[2], ARGV[3]
local own = session .. ':' .. claim
leave(own, place_of(own))
if lease_of(who, claim) then
  drop(who, claim)
end
let_in()
settle()
