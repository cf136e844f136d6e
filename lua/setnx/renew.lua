-- Extends the leases of a batch of holds of setnx locks.
-- KEYS[i] the i-th key
-- ARGV[2i-1] its owner's value; ARGV[2i] its lease in ms
-- Replies {seconds, microseconds of the server's clock, then for each hold 1 extended, 0 no such key, -1 another's}.
-- Shapes ii*i
-- Atomic because only the owner's lease may be extended. All keys in one hash slot.
local now = redis.call('time')
local reply = {tonumber(now[1]), tonumber(now[2])}
for i = 1, #KEYS do
  local key, lease = KEYS[i], ARGV[2 * i]
  local held = redis.pcall('get', key)
  if held == ARGV[2 * i - 1] then
    redis.call('pexpire', key, math.max(redis.call('pttl', key), lease))
    reply[i + 2] = 1
  else
    local value_of = include 'parts/value'
    local other, wrong = value_of(key, held)
    if wrong then
      return wrong
    end
    reply[i + 2] = other and -1 or 0
  end
end
return reply
