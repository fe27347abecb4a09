-- release.lua: free a lease, and hand the name over to the next in line.
--
-- KEYS and ARGV[1] as in ledger.lua, and
-- ARGV[2]  the claim
-- ARGV[3]  the session of the requesting client, or - if the lease belongs to no client
-- ARGV[4]  the fence of the lease, or empty for any
-- ARGV[5]  for how many milliseconds the name stays taken by nobody; omitted if it does not
--
-- Returns how many claims of the same owner still hold the name, or why the claim does not: "taken" or
-- "gone". Another claim's lease is never changed.

open(KEYS[1])
local claim, who = ARGV[2], ARGV[3]
-- Others are granted the name after the release, in one step with it, except for those whose turn came
-- before.
if sweep() then
  let_in()
end
local fence = lease_of(who, claim)
if not fence or (ARGV[4] ~= '' and ARGV[4] ~= fence) then
  let_in()
  settle()
  return why_not(claim)
end

local left
if ARGV[5] then
  left = keep(who, claim, tonumber(ARGV[5]))
else
  left = drop(who, claim)
end
let_in()
settle()
return left
