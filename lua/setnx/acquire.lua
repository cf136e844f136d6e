-- Takes a setnx lock, which is one string key, or extends the lease of its owner for one level more.
-- KEYS[1] the key
-- ARGV[1] the owner's value; ARGV[2] lease in ms, 0 only looks; ARGV[3] 1 for a first level, more for a nested one
-- Replies {1} granted; {0, PTTL, the holder's value} busy; {-1, 1 or 0} a nested level whose hold is gone (1: another
-- owner has the lock).
-- Shapes 1 0is -i
-- Atomic because only the owner's lease may be extended. One key, so one hash slot.
-- A key of another type makes the lock busy, as with SET NX.
local key, value, lease = KEYS[1], ARGV[1], ARGV[2]
local held = redis.pcall('get', key)
if held == value then
  if lease ~= '0' then
    redis.call('pexpire', key, math.max(redis.call('pttl', key), lease))
  end
  return {1}
end
local value_of = include 'parts/value'
local other, wrong = value_of(key, held)
if wrong then
  return wrong
end
if ARGV[3] ~= '1' then
  return {-1, other and 1 or 0}
end
if other then
  return {0, redis.call('pttl', key), other}
end
if lease ~= '0' then
  redis.call('set', key, value, 'px', lease)
end
return {1}
