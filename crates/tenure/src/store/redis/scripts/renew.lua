-- renew.lua: restart the ttl of many leases at once.
--
-- KEYS     for each lease as in ledger.lua
-- ARGV[1]  as in ledger.lua, and four for each lease: the owner; the session of the client that asks, or -
--          if the lease belongs to no client; the fence of the grant, or empty for any; the ttl in
--          milliseconds
--
-- Returns for each lease its fence, or why the owner does not hold the name: "taken" or "gone". A
-- lease that is over is never revived.

for i, answer in ipairs(answers) do
  if not answer then
    local owner, who, fence, ttl = ARGV[4 * i - 2], ARGV[4 * i - 1], ARGV[4 * i], tonumber(ARGV[4 * i + 1])
    open(KEYS[stride * (i - 1) + 1])
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
