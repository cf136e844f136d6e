-- Opens a lock with one hash, if it is still held by the one that was seen.
-- KEYS[1] the lock's hash
-- ARGV[1] the holder that was seen; ARGV[2] PUBLISH, SPUBLISH or BOTH; ARGV[3] channel
-- Replies {1, receivers} opened; {-1, 1 or 0} not held by that one (1: by another).
-- Shapes 1i -i
-- Atomic because a lock that changed hands must not be opened. One hash slot.
local key = KEYS[1]
if redis.call('hexists', key, ARGV[1]) == 0 then
  return {-1, redis.call('exists', key)}
end
redis.call('del', key)
local announce = include 'parts/announce'
return {1, announce(ARGV[2], ARGV[3], '0')}
