--!df flags=allow-undeclared-keys
-- Takes the write side of a read/write lock as its kind's own script does. If it is busy, the call enters the lock's queue.
-- KEYS as rw/write_acquire has them
-- ARGV[1] to ARGV[5] as rw/write_acquire has them; ARGV[6] the queue; ARGV[7] the form of the call's entry; ARGV[8] its
-- ticket, 0: it has none yet, -1: the call does not hear its channel, so it does not enter; ARGV[9] 'asking' if the slot is on
-- its way here: then nobody enters, since a queue that is here already could not come
-- Replies {1} granted, also if the lock was reserved for the owner; {0, time to wait, a holder, place, ticket, marks, 1 if
-- readers are asked to stand back} busy, as parts/enter says it; {-1, 0} never.
-- Shapes 1 0isiiii -i
-- Atomic because a release between the look and the entry would tell nobody. One hash slot by the name's tag. The queue is
-- no declared key: it may be missing, and while a slot is being moved the server would refuse the script.
local take, entry = include 'rw/write_acquire', ARGV[7] .. ARGV[1]:sub(1, -7) -- without ':write'
local others_wait = false
for _, other in ipairs(KEYS[2] and redis.pcall('zrange', ARGV[6], '0', '2') or {}) do
  others_wait = others_wait or other ~= entry and other:byte() ~= 126 -- no mark
end
local reply = take(KEYS, {ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[9], others_wait = others_wait})
if reply[1] == 1 then
  redis.pcall('zrem', ARGV[6], entry) -- an earlier copy may have entered it
elseif reply[1] == 0 then
  local enter = include 'parts/enter'
  reply[4], reply[5], reply[6], reply[7] = 0, 0, 0, reply[4]
  if ARGV[8] ~= '-1' and ARGV[9] ~= 'asking' then
    reply[4], reply[5], reply[6] = enter(ARGV[6], entry, tonumber(ARGV[8]))
  end
end
return reply
