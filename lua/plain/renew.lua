-- Extends the leases of a batch of holds.
-- KEYS[i] the i-th lock's hash
-- ARGV[2i-1] its owner; ARGV[2i] its lease in ms
-- Replies {seconds, microseconds of the server's clock, then for each hold 1 extended, 0 no such lock, -1 another's}.
-- Shapes ii*i
-- Atomic because only the owner's lease may be extended. All keys in one hash slot.
-- Locals, text and few calls, since thousands of holds go through here: a lease that lasts longer is left alone by GT,
-- which saves the PTTL. Servers before 7.0 have no GT, and for it a key that never expires lasts longer. What GT left alone
-- is written all the same: a WAIT behind this script counts the replicas that have what it wrote, and nothing else.
local call, pcall = redis.call, redis.pcall
local now, gt = call('time'), true
local reply = {tonumber(now[1]), tonumber(now[2])}
for i = 1, #KEYS do
  local key, lease = KEYS[i], ARGV[2 * i]
  local held = pcall('hexists', key, ARGV[2 * i - 1])
  if held == 1 then
    local extended = gt and pcall('pexpire', key, lease, 'GT')
    gt = type(extended) == 'number'
    if extended ~= 1 then
      call('pexpire', key, math.max(call('pttl', key), lease))
    end
    reply[i + 2] = 1
  elseif type(held) == 'table' then -- a key of another type is no lock, and concerns the others of the batch no more
    if not string.find(held.err, 'WRONGTYPE', 1, true) then
      return held
    end
    reply[i + 2] = 0
  else
    reply[i + 2] = -call('exists', key)
  end
end
return reply
