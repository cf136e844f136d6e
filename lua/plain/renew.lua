-- Extends the leases of a batch of holds.
-- KEYS[i] the i-th lock's hash
-- ARGV[2i-1] its owner; ARGV[2i] its lease in ms
-- Replies {seconds, microseconds of the server's clock, then for each hold 1 extended, 0 no such lock, -1 another's}.
-- Shapes ii*i
-- Atomic because only the owner's lease may be extended. All keys in one hash slot.
local now = redis.call('time')
local reply = {tonumber(now[1]), tonumber(now[2])}
for i, key in ipairs(KEYS) do
  local held = redis.pcall('hexists', key, ARGV[2 * i - 1])
  if held == 1 then
    redis.call('pexpire', key, math.max(redis.call('pttl', key), tonumber(ARGV[2 * i])))
    reply[i + 2] = 1
  elseif type(held) == 'table' then -- a key of another type is no lock, and concerns the others of the batch no more
    if not string.find(held.err, 'WRONGTYPE', 1, true) then
      return held
    end
    reply[i + 2] = 0
  else
    reply[i + 2] = -redis.call('exists', key)
  end
end
return reply
