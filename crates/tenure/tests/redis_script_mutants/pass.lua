-- pass.lua: let time pass for one name, as if ARGV[1] milliseconds had gone by.
--
-- KEYS[1]  the lease
-- KEYS[2]  its ends
-- KEYS[3]  the places in line
-- ARGV[1]  the time in milliseconds
--
-- Ends, and when those in line ask again and are late, move into the past by as much. What tells
-- since when somebody holds or waits stays.

local passed = tonumber(ARGV[1])

local function earlier(text)
  return string.format('%.0f', tonumber(text) - passed)
end

for _, id in ipairs(redis.call('ZRANGE', KEYS[2], 0, -1)) do
  redis.call('ZINCRBY', KEYS[2], -passed, id)
end
for _, id in ipairs(redis.call('HKEYS', KEYS[3])) do
  local value = redis.call('HGET', KEYS[3], id)
  if id == '\3' then
    redis.call('HSET', KEYS[3], id, earlier(value))
  elseif string.byte(id, 1) > 31 then
    local head, asks, deadline, about = string.match(value, '^(%S+ %S+ %S+ %S+ %S+ %S+ )(%d+) (%d+)(.*)$')
    redis.call('HSET', KEYS[3], id, head .. earlier(asks) .. ' ' .. earlier(deadline) .. about)
  end
end
for key = 1, 2 do
  local left = redis.call('PTTL', KEYS[key])
  if left > 0 then
    redis.call('PEXPIRE', KEYS[key], earlier(left))
  end
end
