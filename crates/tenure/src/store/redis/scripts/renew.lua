-- renew.lua: restart the ttl of many leases at once.
--
-- KEYS     five for each lease, as in ledger.lua
-- ARGV[1..4] as in ledger.lua, and four for each lease:
--          the owner; c if the lease belongs to the client that asks, t if to no client; the fence of
--          the grant, or empty for any; the ttl in milliseconds
--
-- Returns for each lease its fence, or why the owner does not hold the name: "taken" or "gone". A
-- lease that is over is never revived.

for i, answer in ipairs(answers) do
  if not answer then
    local owner, life, fence, ttl = ARGV[4 * i + 1], ARGV[4 * i + 2], ARGV[4 * i + 3], tonumber(ARGV[4 * i + 4])
    local who = life == 'c' and session or '-'
    open(5 * i - 4)
    sweep()
    if not head then
      let_in()
    end
    local granted = grant_of(owner)
    if granted and depth_of(who, owner) and (fence == '' or fence == granted) then
      if many then
        redis.call('ZADD', ends, now + ttl, who .. ':' .. owner)
        last_for(ttl)
      else
        redis.call('PEXPIRE', lease, ttl)
        plain_end = now + ttl
      end
      answers[i] = granted
      let_in()
    else
      let_in()
      answers[i] = why_not(owner)
    end
    settle()
  end
end
return answers
