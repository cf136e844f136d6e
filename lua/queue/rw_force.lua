--!df flags=allow-undeclared-keys
-- Opens one side of a read/write lock, as rw/force does. Then it tells the first two calls in the lock's queue to ask.
-- KEYS as rw/force has them
-- ARGV as rw/force has them
-- Replies as rw/force does
-- Shapes 1i -i
-- Atomic because a lock that changed hands must not be opened. One hash slot by the name's tag.
local force = include 'rw/force'
local reply = force(KEYS, ARGV)
if reply[1] == 1 then
  local tell_front = include 'parts/tell_front'
  tell_front('rlock_wait' .. ARGV[4]:sub(16), ARGV[3], ARGV[4]) -- behind 'redisson_rwlock'
end
return reply
