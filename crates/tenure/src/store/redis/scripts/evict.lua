-- evict.lua: evict all holders of a name, and grant it to the next in line.
--
-- KEYS and ARGV[1] as in ledger.lua
--
-- Returns what look.lua returns, as of before the eviction and without the line. The fence advances
-- even if nobody is next: a resource that learns of the eviction can refuse all smaller fences.

open(KEYS[1])
sweep()
-- Claims whose turn had already come are holders like any other.
let_in()
local before = {
  now_us,
  redis.call('PTTL', lease),
  redis.call('HGETALL', lease),
  redis.call('ZRANGE', ends, 0, -1, 'WITHSCORES'),
  {}, {}, {},
}
-- Nobody receives a message to a lease of no client.
local told = {}
if many then
  for _, id in ipairs(redis.call('ZRANGE', ends, 0, -1)) do
    local who, claim = string.match(id, '^([^:]+):(.*)$')
    local fence = lease_of(who, claim)
    told[#told + 1] = { who, fence, claim }
  end
elseif head then
  local fence, who = string.match(head, '^(%d+) (%S+)')
  for _, field in ipairs(redis.call('HKEYS', lease)) do
    -- Clients of an older version, which write other heads, are not told.
    if fence and string.byte(field, 1) > 31 then
      told[#told + 1] = { who, fence, field }
    end
  end
end
redis.call('DEL', lease, ends)
head, many = nil, false
reserve(1)
for _, lost in ipairs(told) do
  tell(lost[1], 'l ' .. lost[2] .. ' ' .. lost[3])
end
let_in()
settle()
return before
