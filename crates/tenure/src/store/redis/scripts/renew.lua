-- renew.lua: restart the ttl of many leases at once.
--
-- KEYS     for each lease as in ledger.lua
-- ARGV[1]  as in ledger.lua, and four for each lease: the claim; the session of the requesting client, or - if
--          the lease belongs to no client; the fence of the lease, or empty for any; the ttl in milliseconds
--
-- Returns for each lease its fence, or why the claim does not hold the name: "taken" or "gone". A
-- lease that is over is never revived.

for i, answer in ipairs(answers) do
  if not answer then
    local claim, who, fence, ttl = ARGV[4 * i - 2], ARGV[4 * i - 1], ARGV[4 * i], tonumber(ARGV[4 * i + 1])
    open(KEYS[stride * (i - 1) + 1])
    if sweep() then
      let_in()
    end
    local granted = lease_of(who, claim)
    if granted and (fence == '' or fence == granted) then
      restart(who, claim, ttl)
      answers[i] = granted
      let_in()
    else
      let_in()
      answers[i] = why_not(claim)
    end
    settle()
  end
end
return answers
