-- Gives up levels of the write side of a read/write lock: makes the owner's count so; 0 ends the hold, whatever its count,
-- and announces it. Where the owner's own reads stay the lock becomes a readers', and those that wait may come in.
-- KEYS[1] the lock's hash; KEYS[2] what the keys of its readers' levels begin with
-- ARGV[1] owner "uuid:number:write"; ARGV[2] the count to make so; ARGV[3] lease in ms that a level that stays asks for,
-- 0 none; ARGV[4] PUBLISH or SPUBLISH; ARGV[5] channel
-- Replies {1, receivers, 0} done (receivers -1: the announcement was refused); {-1, 1 or 0} not held (1: by another).
-- Shapes 1ii -i
-- Atomic because the end of writing and its announcement must be one. One hash slot by the name's tag.
-- The first write is one that a full server still allows; the announcement comes last, and may fail.
local key, owner, count, lease = KEYS[1], ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local held = redis.call('hget', key, owner)
local ttl = redis.call('pttl', key)
if not held then
  return {-1, ttl == -2 and 0 or 1}
end
if count > 0 then
  -- never pexpire 0: that deletes the key, and the next write would make one without an end
  if ttl >= 0 or lease > 0 then
    redis.call('pexpire', key, math.max(ttl, lease, 1))
  end
  if tonumber(held) > count then
    redis.call('hset', key, owner, count)
  end
  return {1, 0, 0}
end
redis.call('hdel', key, owner)
local reads, longest = false, ttl
local fields = redis.call('hgetall', key)
for f = 1, #fields, 2 do
  local field, n = fields[f], string.match(fields[f + 1], '^%d+$') and tonumber(fields[f + 1]) or 1e9
  if field ~= 'mode' then
    local level = KEYS[2] .. field .. ':rwlock_timeout:'
    local lives = n > 1000
    for i = n > 1000 and 0 or n, 1, -1 do
      lives = lives or redis.call('pttl', level .. i) ~= -2
    end
    for i = lives and n <= 1000 and n or 0, 1, -1 do -- what the hash has is theirs alone now
      longest = math.max(longest, redis.call('pttl', level .. i), 1)
      redis.call('set', level .. i, 1, 'px', longest)
    end
    reads = reads or lives
  end
end
if reads then
  redis.call('hset', key, 'mode', 'read')
  if longest > 0 then
    redis.call('pexpire', key, longest)
  end
else
  redis.call('del', key)
end
local receivers = redis.pcall(ARGV[4], ARGV[5], '1')
return {1, type(receivers) == 'number' and receivers or -1, 0}
