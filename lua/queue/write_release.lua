--!df flags=allow-undeclared-keys
-- Gives up levels of the write side of a read/write lock, as rw/write_release does. The last level gives the lock to the first
-- writer in its queue, unless the owner's own reads stay. An owner without a hold leaves the queue, and readers stand back for
-- it no more.
-- KEYS as rw/write_release has them
-- ARGV as rw/write_release has them; of the last level ARGV[3] may be 1: it is a turn of others
-- Replies as rw/write_release does; {2, receivers, 0} if it is a turn of others (parts/give)
-- Shapes 1ii 2ii -i
-- Atomic because nobody may take the lock between its release and the next in the queue. One hash slot: keys, and the
-- channels by their tag.
-- If it runs twice, it gives the lock once: the second time it finds no hold. If the owner's own reads stay, the script tells
-- the first call in the queue to ask: that one then hears the readers leave.
local key, owner, way, channel = KEYS[1], ARGV[1], ARGV[4], ARGV[5]
local release, queue = include 'rw/write_release', 'rlock_wait' .. channel:sub(16) -- behind 'redisson_rwlock'
if ARGV[2] ~= '0' then
  return release(KEYS, ARGV)
end
local held = redis.pcall('hexists', key, owner)
if held ~= 1 then
  local leave = include 'parts/leave'
  leave(queue, way, channel, owner:sub(1, -7)) -- without ':write'
  local waits = 'rlock_writer_waits' .. channel:sub(16)
  if redis.pcall('get', waits) == owner then
    redis.pcall('del', waits)
  end
  return held == 0 and {-1, redis.call('exists', key)} or held
end
local give = include 'parts/give_write'
if redis.call('hlen', key) == 2 then -- the owner does not read as well
  local outcome, told = give(key, way, channel, '1', ARGV[3])
  return {outcome, told, 0}
end
ARGV.free = give
local reply = release(KEYS, ARGV)
if redis.pcall('hget', key, 'mode') == 'read' then -- a key that is gone cannot be looked at while its slot is being moved
  local tell_front = include 'parts/tell_front'
  tell_front(queue, way, channel)
end
return reply
