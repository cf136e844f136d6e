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
if count > 0 then
  local lower = include 'parts/lower'
  local reply = lower(key, owner, count, lease)
  reply[3] = reply[1] == 1 and 0 or nil
  return reply
end
local left = redis.call('pttl', key)
if redis.call('hdel', key, owner) == 0 then
  return {-1, left == -2 and 0 or 1}
end
local holds, longest, reads = include 'parts/holds', include 'parts/longest', false
for field, n in holds(key) do
  local level = KEYS[2] .. field .. ':rwlock_timeout:'
  local lives = n > 1000 or longest(KEYS[2], field, n, true) ~= -2
  for i = lives and n <= 1000 and n or 0, 1, -1 do -- what the hash has is theirs alone now
    left = math.max(left, redis.call('pttl', level .. i), 1)
    redis.call('set', level .. i, 1, 'px', left)
  end
  reads = reads or lives
end
if reads then
  redis.call('hset', key, 'mode', 'read')
  if left > 0 then
    redis.call('pexpire', key, left)
  end
else
  redis.call('del', key)
end
local receivers = redis.pcall(ARGV[4], ARGV[5], '1')
return {1, type(receivers) == 'number' and receivers or -1, 0}
