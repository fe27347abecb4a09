-- withdraw.lua: undo a claim in any state.
--
-- KEYS and ARGV[1] as in ledger.lua, and
-- ARGV[2]  the claim
-- ARGV[3]  the session of the requesting client, or - if the lease was requested for no client
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
