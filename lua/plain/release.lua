-- Gives up levels of a lock with one hash: makes the owner's count so; 0 ends the hold, whatever its count, and
-- announces it.
-- KEYS[1] the lock's hash
-- ARGV[1] owner; ARGV[2] the count to make so; ARGV[3] lease in ms that a level that stays asks for, 0 none;
-- ARGV[4] PUBLISH, SPUBLISH or BOTH; ARGV[5] channel
-- Replies {1, receivers} done (receivers -1: the announcement was refused); {-1, 1 or 0} not held (1: by another).
-- Shapes 1i -i
-- Atomic because the deletion and its announcement must be one. One hash slot: key, and channel by its tag.
-- The first write is one that a full server still allows; the announcement comes last, and may fail.
local key, owner, count, lease = KEYS[1], ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
if count > 0 then
  local lower = include 'parts/lower'
  return lower(key, owner, count, lease)
end
if redis.call('hdel', key, owner) == 0 then
  return {-1, redis.call('exists', key)}
end
local announce = include 'parts/announce'
return {1, announce(ARGV[4], ARGV[5], '0')}
