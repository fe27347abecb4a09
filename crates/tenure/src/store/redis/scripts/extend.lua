-- extend.lua: the fast path of renew.lua, for leases that nobody else wants.
--
-- Runs before ledger.lua and renew.lua, which handle all other cases. Keys and arguments are those
-- of renew.lua. Makes two calls for each lease.

local answers, left = {}, 0
local count = (#ARGV - 1) / 4
local stride = #KEYS / count
for i = 1, count do
  local lease, claim, fence = KEYS[stride * (i - 1) + 1], ARGV[4 * i - 2], ARGV[4 * i]
  local held = redis.call('HMGET', lease, claim, '\1')
  local mine = fence .. ' ' .. ARGV[4 * i - 1] .. ' -'
  if held[1] and held[2] and string.sub(held[2], 1, #mine) == mine then
    redis.call('PEXPIRE', lease, ARGV[4 * i + 1])
    answers[i] = fence
  else
    answers[i] = false
    left = left + 1
  end
end
if left == 0 then
  return answers
end
