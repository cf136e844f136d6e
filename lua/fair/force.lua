-- Opens a fair lock, if it is still held by the one that was seen. The queue stays, and its head is told.
-- KEYS[1] the lock's hash; KEYS[2] the queue; KEYS[3] the queue's scores
-- ARGV[1] the holder that was seen; ARGV[2] PUBLISH or SPUBLISH; ARGV[3] channel, the head's own being this:owner
-- Replies {1, receivers} opened; {-1, 1 or 0} not held by that one (1: by another).
-- Atomic because a lock that changed hands must not be opened. One hash slot by the name's tag, the channels too.
local key, queue, scores = KEYS[1], KEYS[2], KEYS[3]
if redis.call('hexists', key, ARGV[1]) == 0 then
  return {-1, redis.call('exists', key)}
end
redis.call('del', key)
local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local head = redis.call('lindex', queue, 0)
while head and (tonumber(redis.call('zscore', scores, head)) or now + 1) <= now do -- by every peer's rule
  redis.call('zrem', scores, head)
  redis.call('lrem', queue, 0, head)
  head = redis.call('lindex', queue, 0)
end
if not head then
  return {1, 0}
end
local receivers = redis.pcall(ARGV[2], ARGV[3] .. ':' .. head, '0')
return {1, type(receivers) == 'number' and receivers or -1}
