--!df flags=allow-undeclared-keys
-- Extends the leases of a batch of read holds: of each the hash, and every level.
-- KEYS for each hold its lock's hash, and the keys of its levels
-- ARGV for each hold its owner; its lease in ms; how many keys its levels have; what these begin with; maybe one more, see
-- src/lock/ops.h
-- Replies {seconds, microseconds of the server's clock, then for each hold 1 extended, 0 gone, -1 a writer has the lock,
-- 2 the server refused to look}.
-- Shapes ii*i
-- Atomic because only a hold that lives may be extended, and all of it. All keys in one hash slot.
-- A hold lives while one of its levels does: what the server let end, nobody brings back. A level whose key is not
-- declared is extended and never made: it may be on its way here.
local longest, now = include 'parts/longest', redis.call('time')
local reply, k = {tonumber(now[1]), tonumber(now[2])}, 1
for a = 1, #ARGV - 3, 4 do
  local key, owner, lease, levels = KEYS[k], ARGV[a], tonumber(ARGV[a + 1]), ARGV[a + 3]
  local held = redis.pcall('hget', key, owner)
  local found = math.min(tonumber(held) or 0, 1000)
  if longest(levels, owner, found, true) ~= -2 then
    local level = levels .. owner .. ':rwlock_timeout:'
    redis.call('pexpire', key, math.max(redis.call('pttl', key), lease))
    for i = 1, found do
      local left = redis.call('pttl', level .. i)
      if left ~= -2 or i <= tonumber(ARGV[a + 2]) then
        redis.call('set', level .. i, 1, 'px', math.max(left, lease))
      end
    end
    reply[#reply + 1] = 1
  elseif type(held) == 'table' then
    reply[#reply + 1] = string.find(held.err, 'WRONGTYPE', 1, true) and 0 or 2
  else
    reply[#reply + 1] = redis.call('hget', key, 'mode') == 'write' and -1 or 0
  end
  k = k + 1 + tonumber(ARGV[a + 2])
end
return reply
