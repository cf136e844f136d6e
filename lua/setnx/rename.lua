-- Gives a hold of a setnx lock to another owner: from a client to a text, or from a text to a client.
-- KEYS[1] the key
-- ARGV[1] the owner's value; ARGV[2] the other's value; ARGV[3] lease in ms
-- Replies {1} done, now or by an earlier copy; {-1, 1 or 0} the owner does not hold it (1: another does).
-- Shapes 1 -i
-- Atomic because somebody else could take the lock between two owners. One key, so one hash slot.
-- A copy that comes late never makes the lease shorter.
local key = KEYS[1]
local held = redis.pcall('get', key)
if held == ARGV[2] then
  redis.call('pexpire', key, math.max(redis.call('pttl', key), ARGV[3]))
  return {1}
end
if held ~= ARGV[1] then
  local value_of = include 'parts/value'
  local other, wrong = value_of(key, held)
  return wrong or {-1, other and 1 or 0}
end
redis.call('set', key, ARGV[2], 'px', ARGV[3])
return {1}
