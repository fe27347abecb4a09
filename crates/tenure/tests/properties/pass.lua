-- pass.lua: let time pass for all locks in a server, as if ARGV[1] milliseconds had gone by.
--
-- ARGV[1]  the time in milliseconds
--
-- Ends, and what tells since when, move into the past by as much. Deadlines of places stay: who
-- waits is taken to be alive, although nobody asks again just because time has passed. So do the
-- fences, and with them since when a lone exclusive holder has the name.

local passed = tonumber(ARGV[1])

local function earlier(text, unit)
  return string.format('%.0f', tonumber(text) - passed * unit)
end

for _, key in ipairs(redis.call('KEYS', '*')) do
  local kind = string.match(key, '}:(%a+)$')
  if not kind then
    for _, field in ipairs(redis.call('HKEYS', key)) do
      local value, letter = redis.call('HGET', key, field), string.byte(field, 1)
      if letter == 3 then
        local fences, since, rest = string.match(value, '^(%d+ %d+ )(%d+)(.*)$')
        redis.call('HSET', key, field, fences .. earlier(since, 1000) .. rest)
      end
    end
  elseif kind == 'ends' then
    for _, id in ipairs(redis.call('ZRANGE', key, 0, -1)) do
      redis.call('ZINCRBY', key, -passed, id)
    end
  elseif kind == 'places' then
    for _, id in ipairs(redis.call('HKEYS', key)) do
      local value = redis.call('HGET', key, id)
      if id == '\3' then
        redis.call('HSET', key, id, earlier(value, 1))
      elseif string.byte(id, 1) > 31 then
        local head, asked, asks, tail = string.match(value, '^(%S+ %S+ %S+ %S+ %S+ )(%d+) (%d+)(.*)$')
        redis.call('HSET', key, id, head .. earlier(asked, 1000) .. ' ' .. earlier(asks, 1) .. tail)
      end
    end
  end
  if not kind or kind == 'ends' then
    redis.call('PEXPIRE', key, string.format('%.0f', redis.call('PTTL', key) - passed))
  end
end
