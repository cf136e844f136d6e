-- Extends the leases of a batch of read holds: of each the hash, and every level.
-- KEYS[2i-1] the i-th lock's hash; KEYS[2i] what the keys of its readers' levels begin with
-- ARGV[2i-1] its owner; ARGV[2i] its lease in ms
-- Replies {seconds, microseconds of the server's clock, then for each hold 1 extended, 0 gone, -1 a writer has the lock,
-- 2 the server refused to look}.
-- Shapes ii*i
-- Atomic because only a hold that lives may be extended, and all of it. All keys in one hash slot.
-- A hold lives while one of its levels does: what the server let end, nobody brings back.
local longest, now = include 'parts/longest', redis.call('time')
local reply = {tonumber(now[1]), tonumber(now[2])}
for k = 1, #KEYS, 2 do
  local key, level, lease = KEYS[k], KEYS[k + 1] .. ARGV[k] .. ':rwlock_timeout:', tonumber(ARGV[k + 1])
  local held = redis.pcall('hget', key, ARGV[k])
  local found = math.min(tonumber(held) or 0, 1000)
  if longest(KEYS[k + 1], ARGV[k], found, true) ~= -2 then
    redis.call('pexpire', key, math.max(redis.call('pttl', key), lease))
    for i = 1, found do
      redis.call('set', level .. i, 1, 'px', math.max(redis.call('pttl', level .. i), lease))
    end
    reply[#reply + 1] = 1
  elseif type(held) == 'table' then
    reply[#reply + 1] = string.find(held.err, 'WRONGTYPE', 1, true) and 0 or 2
  else
    reply[#reply + 1] = redis.call('hget', key, 'mode') == 'write' and -1 or 0
  end
end
return reply
