--!df flags=allow-undeclared-keys
-- Gives a hold of a fair lock to another owner, like plain/rename. If the lock ends sooner then, a message wakes the
-- head of the queue.
-- KEYS[1] the lock's hash
-- ARGV[1] owner "uuid:number"; ARGV[2] the other owner; ARGV[3] lease in ms; ARGV[4] PUBLISH, SPUBLISH or BOTH; ARGV[5]
-- channel, the head's own being this:owner; ARGV[6] the queue
-- Replies {1} done, now or by an earlier copy; {-1, 1 or 0} the owner does not hold it (1: another does).
-- Shapes 1 -i
-- Atomic because somebody else could take the lock between two owners. One hash slot by the name's tag, the channels too.
-- A queue that cannot be looked at, since the slot is being moved, is not told.
local rename, announce = include 'parts/rename', include 'parts/announce'
local reply, is_sooner = rename(KEYS[1], ARGV[1], ARGV[2], tonumber(ARGV[3]))
local head = is_sooner and redis.pcall('lindex', ARGV[6], 0)
if type(head) == 'string' then
  announce(ARGV[4], ARGV[5] .. ':' .. head, '0')
end
return reply
