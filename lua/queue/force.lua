--!df flags=allow-undeclared-keys
-- Opens a lock with one holder, if it is still held by the one that was seen, and gives it to the first call in its queue.
-- KEYS[1] the lock's hash
-- ARGV[1] the holder that was seen; ARGV[2] PUBLISH, SPUBLISH or BOTH; ARGV[3] channel; ARGV.has_tokens of a fenced lock, from
-- its script
-- Replies {1, receivers} opened, {2, receivers} if it is a turn of others, {3, receivers} if it was given to another client
-- than the holder's (parts/give); {-1, 1 or 0} not held by that one (1: by another).
-- Shapes 1i 2i 3i -i
-- Atomic because a lock that changed hands must not be opened. One hash slot.
local key = KEYS[1]
if redis.call('hexists', key, ARGV[1]) == 0 then
  return {-1, redis.call('exists', key)}
end
if redis.call('hlen', key) > 1 then
  redis.call('del', key)
  return {1, 0}
end
local give = include 'parts/give'
return {give(key, ARGV[1], ARGV[2], ARGV[3], false, ARGV.has_tokens)}
