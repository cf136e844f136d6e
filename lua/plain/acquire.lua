-- Takes a reentrant lock, or one level more of it: makes the owner's count so, and never adds.
-- KEYS[1] the lock's hash
-- ARGV[1] owner "uuid:number"; ARGV[2] lease in ms, 0 only looks; ARGV[3] the count to make so
-- Replies {1} granted; {0, PTTL, a holder} busy; {-1, 1 or 0} a nested level whose hold is gone (1: taken by another).
-- Shapes 1 0is -i
-- Atomic because the look and the taking must be one. One key, so one hash slot.
local key, owner, lease, count = KEYS[1], ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
if redis.call('exists', key) == 0 then
  if count > 1 then
    return {-1, 0}
  end
  if lease == 0 then
    return {1}
  end
  redis.call('hset', key, owner, 1)
  -- a lock without an end would be worse than none: undo it where the server does not permit the lease
  local leased = redis.pcall('pexpire', key, lease)
  if type(leased) == 'table' and leased.err then
    redis.pcall('hdel', key, owner)
    return leased
  end
  return {1}
end
local held = redis.call('hget', key, owner)
local ttl = redis.call('pttl', key)
if held then
  if lease == 0 then
    return {1}
  end
  redis.call('pexpire', key, math.max(ttl, lease))
  if tonumber(held) < count then
    redis.call('hset', key, owner, count)
  end
  return {1}
end
if count > 1 then
  return {-1, 1}
end
-- a lock has one field, its owner, or a mode besides; what else is under the key may be large
local size, mode, holder = redis.call('hlen', key), redis.call('hget', key, 'mode'), ''
for _, field in ipairs(size <= 16 and redis.call('hkeys', key) or {}) do
  holder = #field <= 128 and string.find(field, ':%d') and field or holder
end
if mode ~= 'read' and mode ~= 'write' and (size > 1 or holder == '') then
  return {err = 'WRONGTYPE the hash under this key is no lock'}
end
return {0, ttl, holder}
