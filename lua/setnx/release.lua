-- Gives up levels of a setnx lock. The last one deletes the key, and nothing announces that.
-- KEYS[1] the key
-- ARGV[1] the owner's value; ARGV[2] how many levels stay; ARGV[3] lease in ms that a level that stays asks for, 0 none
-- Replies {1, 0} done; {-1, 1 or 0} not held (1: by another).
-- Shapes 1i -i
-- Atomic because only the owner's key may be deleted. One key, so one hash slot.
local key = KEYS[1]
local held = redis.pcall('get', key)
if held ~= ARGV[1] then
  local value_of = include 'parts/value'
  local other, wrong = value_of(key, held)
  return wrong or {-1, other and 1 or 0}
end
if ARGV[2] == '0' then
  redis.call('del', key)
else
  -- never pexpire 0: that deletes the key. What is written counts for a WAIT behind this script.
  redis.call('pexpire', key, math.max(redis.call('pttl', key), ARGV[3], 1))
end
return {1, 0}
