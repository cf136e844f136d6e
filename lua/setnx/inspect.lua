-- Says who holds a setnx lock.
-- KEYS[1] the key
-- ARGV none
-- Replies {PTTL, number of holders, the value, its count, 0}; '' where it is free.
-- Shapes iissi
-- Atomic so that the parts belong together. One key, so one hash slot.
local value_of = include 'parts/value'
local value, wrong = value_of(KEYS[1], redis.pcall('get', KEYS[1]))
if wrong then
  return wrong
end
return {redis.call('pttl', KEYS[1]), value and 1 or 0, value or '', value and '1' or '', 0}
