-- Says who holds a fair lock, and how many wait.
-- KEYS[1] the lock's hash
-- ARGV[1] the queue
-- Replies {PTTL, number of holders, the holder, its count, 0, length of the queue}; '' where it is free.
-- Shapes iissii
-- Atomic so that the parts belong together. One hash slot by the name's tag.
local inspect = include 'plain/inspect'
local reply, waiting = inspect(KEYS, {}), redis.pcall('llen', ARGV[1])
if type(waiting) == 'table' and string.find(waiting.err, 'WRONGTYPE', 1, true) then
  return waiting
end
if not reply.err then
  reply[6] = type(waiting) == 'number' and waiting or 0 -- what cannot be looked at: the slot is being moved
end
return reply
