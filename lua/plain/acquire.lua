-- Takes a reentrant lock, or one level more of it: makes the owner's count so, and never adds.
-- KEYS[1] the lock's hash
-- ARGV[1] owner "uuid:number"; ARGV[2] lease in ms, 0 only looks; ARGV[3] the count to make so
-- Replies {1} granted; {0, PTTL, a holder} busy; {-1, 1 or 0} a nested level whose hold is gone (1: taken by another).
-- Shapes 1 0is -i
-- Atomic because the look and the taking must be one. One key, so one hash slot.
-- What it hands on as text, '1' and ARGV[2], the server need not print: it prints numbers with 17 digits, and that is slow.
local key, owner, lease, count = KEYS[1], ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
if redis.call('exists', key) == 0 then
  if count > 1 then
    return {-1, 0}
  end
  if lease == 0 then
    return {1}
  end
  local undo = include 'parts/undo'
  redis.call('hset', key, owner, '1')
  return undo(redis.pcall('pexpire', key, ARGV[2]), key, owner) or {1}
end
local raise = include 'parts/raise'
local reply, ttl = raise(key, owner, lease, count)
if reply then
  return reply
end
local holder_of = include 'parts/holder'
local holder, wrong = holder_of(key, redis.call('hlen', key))
return wrong or {0, ttl, holder}
