--!df flags=allow-undeclared-keys
-- Says who holds a fair lock, and how many wait.
-- KEYS[1] the lock's hash
-- ARGV[1] the queue; ARGV[2] PUBLISH, SPUBLISH or BOTH; ARGV[3] channel, a waiter's own being this:owner; ARGV[4] '-' if
-- this server does not know all who hear a channel, else ''
-- Replies {PTTL, number of holders, the holder, its count, 0, length of the queue, how many in it are dead}; '' where it is
-- free.
-- Shapes iissiii
-- Atomic so that the parts belong together. One hash slot by the name's tag.
local inspect = include 'plain/inspect'
local reply, waiting = inspect(KEYS, {}), redis.pcall('llen', ARGV[1])
if type(waiting) == 'table' and string.find(waiting.err, 'WRONGTYPE', 1, true) then
  return waiting
end
if not reply.err then
  local unheard = include 'parts/unheard'
  reply[6] = type(waiting) == 'number' and waiting or 0 -- what cannot be looked at: the slot is being moved
  reply[7] = reply[6] > 0 and ARGV[4] ~= '-' and #unheard(ARGV[1], ARGV[2], ARGV[3]) or 0
end
return reply
