-- Opens a fair lock, if it is still held by the one that was seen. The queue stays, and its head is told.
-- KEYS[1] the lock's hash
-- ARGV[1] the holder that was seen; ARGV[2] PUBLISH, SPUBLISH or BOTH; ARGV[3] channel, the head's own being this:owner;
-- ARGV[4] slot in ms; ARGV[5] the queue; ARGV[6] the queue's scores
-- Replies {1, receivers} opened; {-1, 1 or 0} not held by that one (1: by another).
-- Shapes 1i -i
-- Atomic because a lock that changed hands must not be opened. One hash slot by the name's tag, the channels too.
local key, slot, queue, scores = KEYS[1], tonumber(ARGV[4]), ARGV[5], ARGV[6]
if redis.call('hexists', key, ARGV[1]) == 0 then
  return {-1, redis.call('exists', key)}
end
redis.call('del', key)
local head = redis.pcall('lindex', queue, 0) -- of another type the queue is somebody else's
if type(head) ~= 'string' then
  return {1, 0}
end
-- it counts for a slot from now on, and no longer by a lease that has ended; the next look sees to those behind it
local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local score = redis.pcall('zscore', scores, head)
score = type(score) == 'string' and tonumber(score)
if not score or score < now + slot / 2 or score > now + slot * 2 then
  redis.pcall('zadd', scores, now + slot, head)
end
local announce = include 'parts/announce'
return {1, announce(ARGV[2], ARGV[3] .. ':' .. head, '0')}
