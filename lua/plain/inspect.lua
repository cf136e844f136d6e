-- Says who holds a lock with one hash.
-- KEYS[1] the lock's hash
-- ARGV none
-- Replies {PTTL, number of holders} and, where it is held, {…, first holder, its count}.
-- Atomic so that the parts belong together. One key, so one hash slot.
local holders = redis.call('hlen', KEYS[1])
local reply = {redis.call('pttl', KEYS[1]), holders}
if holders > 0 then
  local first = redis.call('hkeys', KEYS[1])[1]
  reply[3], reply[4] = first, redis.call('hget', KEYS[1], first)
end
return reply
