-- extend.lua: the short way of renew.lua, for leases that nobody else wants.
--
-- Runs before ledger.lua and renew.lua, which see to every other case. Keys and arguments are
-- renew.lua's. Two calls for each lease.

local answers, left = {}, 0
for i = 1, #KEYS / 5 do
  local owner, life, fence, ttl = ARGV[4 * i + 1], ARGV[4 * i + 2], ARGV[4 * i + 3], ARGV[4 * i + 4]
  -- Without a fence this is no lease's beginning.
  local mine = fence .. ' ' .. (life == 'c' and ARGV[1] or '-') .. ' -'
  local held = redis.call('HMGET', KEYS[5 * i - 4], owner, '\1')
  if held[1] and held[2] and string.sub(held[2], 1, #mine) == mine then
    redis.call('PEXPIRE', KEYS[5 * i - 4], ttl)
    answers[i] = fence
  else
    answers[i] = false
    left = left + 1
  end
end
if left == 0 then
  return answers
end
