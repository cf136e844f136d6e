-- Says who holds a fair lock, and how many wait.
-- KEYS[1] the lock's hash; KEYS[2] the queue
-- ARGV none
-- Replies {PTTL, number of holders, the holder, its count, 0, length of the queue}; '' where it is free.
-- Shapes iissii
-- Atomic so that the parts belong together. One hash slot by the name's tag.
local inspect = include 'plain/inspect'
local reply = inspect({KEYS[1]}, ARGV)
if not reply.err then
  reply[6] = redis.call('llen', KEYS[2])
end
return reply
