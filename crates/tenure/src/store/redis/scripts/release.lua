-- release.lua: lower a lease to a depth, or free it and hand the name to whoever is next in line.
--
-- KEYS and ARGV[1..4] as in ledger.lua, and
-- ARGV[5]  the owner
-- ARGV[6]  c if the lease belongs to the client that asks, t if to no client
-- ARGV[7]  the fence of the grant, or empty for any
-- ARGV[8]  the depth to keep; 0 frees the lease
-- ARGV[9]  for how many milliseconds the name stays taken by nobody, after it was freed
--
-- Returns "freed" or "lowered", or why the owner does not hold the name: "taken" or "gone". Another
-- owner's lease is never changed.

open(1)
local owner = ARGV[5]
local who = ARGV[6] == 'c' and session or '-'
-- Others go in after the release, in one step with it; what has run out is over before.
sweep()
if not head then
  let_in()
end
local fence, mode = grant_of(owner)
local depth = fence and depth_of(who, owner)
if not depth or (ARGV[7] ~= '' and ARGV[7] ~= fence) then
  let_in()
  settle()
  return why_not(owner)
end

local answer = 'freed'
local keep_depth = tonumber(ARGV[8])
if keep_depth > 0 then
  answer = 'lowered'
  if keep_depth < depth then
    if many then
      local id = who .. ':' .. owner
      local rest = string.match(redis.call('HGET', lease, '\3' .. id), '^%d+ (.*)$')
      redis.call('HSET', lease, '\3' .. id, keep_depth .. ' ' .. rest)
      redis.call('HINCRBY', lease, owner, keep_depth - depth)
    else
      redis.call('HSET', lease, owner, keep_depth)
    end
  end
elseif ARGV[9] ~= '0' then
  keep(who, owner, fence, mode, tonumber(ARGV[9]))
else
  drop(who, owner)
end
let_in()
settle()
return answer
