-- Gives a hold of a lock with one hash to another owner: from a client to a text, or from a text to a client. If the lock
-- ends sooner then, a message wakes the waiters.
-- KEYS[1] the lock's hash
-- ARGV[1] the owner's field; ARGV[2] the other's field; ARGV[3] lease in ms; ARGV[4] PUBLISH, SPUBLISH or BOTH; ARGV[5]
-- channel; ARGV[6] the message, as a release has it
-- Replies {1} done, now or by an earlier copy; {-1, 1 or 0} the owner does not hold it (1: another does).
-- Shapes 1 -i
-- Atomic because somebody else could take the lock between two owners. One hash slot: key, and channel by its tag.
local rename, announce = include 'parts/rename', include 'parts/announce'
local reply, is_sooner = rename(KEYS[1], ARGV[1], ARGV[2], tonumber(ARGV[3]))
if is_sooner then
  announce(ARGV[4], ARGV[5], ARGV[6])
end
return reply
