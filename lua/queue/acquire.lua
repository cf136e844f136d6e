--!df flags=allow-undeclared-keys
-- Takes a lock with one holder as its kind's own script does. If it is busy, the call enters the lock's queue.
-- KEYS[1] the lock's hash; KEYS[2] a fenced lock's token, or none
-- ARGV[1] owner "uuid:number"; ARGV[2] lease in ms; ARGV[3] the count to make so, 1; ARGV[4] the queue; ARGV[5] the form of the
-- call's entry; ARGV[6] its ticket, 0: it has none yet, -1: the call does not hear its channel, so it does not enter; ARGV[7]
-- PUBLISH, SPUBLISH or BOTH; ARGV[8] 'asking' if the slot is on its way here: then nobody enters, since a queue that is here
-- already could not come
-- Replies {1}, or {1, token}, granted, also if the lock was reserved for the owner; {0, PTTL, a holder, place, ticket, marks}
-- busy, as parts/enter says it; {-1, 0} never.
-- Shapes 1 1i 0isiii -i
-- Atomic because a release between the look and the entry would tell nobody. One hash slot by the name's tag. The queue is
-- no declared key: it may be missing, and while a slot is being moved the server would refuse the script.
local take = KEYS[2] and include 'fenced/acquire' or include 'plain/acquire'
local reply = take(KEYS, ARGV)
if reply[1] == 1 then
  redis.pcall('zrem', ARGV[4], ARGV[5] .. ARGV[1]) -- an earlier copy may have entered it
elseif reply[1] == 0 then
  local enter = include 'parts/enter'
  reply[4], reply[5], reply[6] = 0, 0, 0
  if ARGV[6] ~= '-1' and ARGV[8] ~= 'asking' then
    reply[4], reply[5], reply[6] = enter(ARGV[4], ARGV[5] .. ARGV[1], tonumber(ARGV[6]))
    local holder = reply[3]
    if reply[4] == 1 and ARGV[6] == '0' and not KEYS[2] and holder:byte(15) == 56 then -- its client may keep it unused
      local announce = include 'parts/announce'
      announce(ARGV[7], 'redisson_lock__channel' .. ARGV[4]:sub(11) .. ':' .. holder:sub(1, 36), 'w ' .. holder:sub(38))
    end
  end
end
return reply
