-- give.lua: the short way of release.lua, for a lease that nobody else wants.
--
-- Runs before ledger.lua and release.lua, which see to every other case. Keys and arguments are
-- release.lua's. Two calls, as many as a bare compare-and-delete.

if ARGV[5] == '0' then
  local held = redis.call('HMGET', KEYS[1], ARGV[2], '\1')
  local mine = ARGV[4] .. ' ' .. ARGV[3] .. ' -'
  if held[1] and held[2] and string.sub(held[2], 1, #mine) == mine then
    redis.call('DEL', KEYS[1])
    return 'freed'
  end
end
