--!df flags=allow-undeclared-keys
-- Gives a hold of a lock with one holder to another owner, as its kind's own script does. Then it tells the first two calls in
-- the lock's queue to ask, since the lease of a text may end unannounced.
-- KEYS as the kind's script has them: [1] the lock's hash; [2] a fenced lock's token, or none
-- ARGV[1] the owner's field; ARGV[2] the other's field; ARGV[3] lease in ms; ARGV[4] PUBLISH, SPUBLISH or BOTH; ARGV[5]
-- channel; ARGV[6] the message, as a release has it
-- Replies {1}, or {1, token}, done, now or by an earlier copy; {-1, 1 or 0} the owner does not hold it (1: another does).
-- Shapes 1 1i -i
-- Atomic because somebody else could take the lock between two owners. One hash slot by the name's tag.
local rename = KEYS[2] and include 'fenced/rename' or include 'plain/rename'
local reply = rename(KEYS, ARGV)
if reply[1] == 1 then
  local tell_front = include 'parts/tell_front'
  tell_front('rlock_wait' .. ARGV[5]:match(':.*'), ARGV[4], ARGV[5]) -- behind the channel's first word
end
return reply
