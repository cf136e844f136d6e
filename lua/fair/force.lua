--!df flags=allow-undeclared-keys
-- Opens a fair lock, if it is still held by the one that was seen. The queue stays, and its head is told. If nobody held
-- the lock, and nobody does, the dead are taken out of the queue.
-- KEYS[1] the lock's hash
-- ARGV[1] the holder that was seen, '' nobody; ARGV[2] PUBLISH, SPUBLISH or BOTH; ARGV[3] channel, a waiter's own being
-- this:owner; ARGV[4] slot in ms; ARGV[5] the queue; ARGV[6] the queue's scores; ARGV[7] the notes
-- Replies {1, receivers} opened; {-1, 1 or 0} not held by that one (1: by another).
-- Shapes 1i -i
-- Atomic because a lock that changed hands must not be opened. One hash slot by the name's tag, the channels too.
local key, slot, queue, scores, notes = KEYS[1], tonumber(ARGV[4]), ARGV[5], ARGV[6], ARGV[7]
local dead = {}
if ARGV[1] ~= '' and redis.call('hexists', key, ARGV[1]) == 1 then
  redis.call('del', key)
elseif ARGV[1] == '' and redis.call('exists', key) == 0 then
  local unheard = include 'parts/unheard'
  dead = unheard(queue, ARGV[2], ARGV[3])
else
  return {-1, redis.call('exists', key)}
end
for _, name in ipairs(dead) do
  redis.pcall('zrem', scores, name)
  redis.pcall('lrem', queue, 0, name)
  redis.pcall('hdel', notes, name)
  redis.pcall('zrem', 'rlock_fair_asks' .. notes:sub(11), name)
end
local head = redis.pcall('lindex', queue, 0) -- of another type the queue is somebody else's
if not head and #dead > 0 then
  for name, count in pairs({[scores] = 'zcard', [notes] = 'hlen'}) do
    if type(redis.pcall(count, name)) == 'number' then
      redis.pcall('del', name)
    end
  end
end
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
local set_ends, announce = include 'parts/ends', include 'parts/announce'
set_ends(queue, scores, slot, now)
return {1, announce(ARGV[2], ARGV[3] .. ':' .. head, '0')}
