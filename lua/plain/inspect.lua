-- Says who holds a lock with one hash.
-- KEYS[1] the lock's hash; KEYS[2] the token of a fenced lock, or none
-- ARGV none
-- Replies {PTTL, number of holders, the holder, its count, token}; '' where it is free, 0 without a token.
-- Shapes iissi
-- Atomic so that the parts belong together. One key, so one hash slot.
local holders = redis.call('hlen', KEYS[1])
local first, count = '', ''
if holders > 0 then
  local holder_of, wrong = include 'parts/holder'
  first, wrong = holder_of(KEYS[1], holders)
  if wrong then
    return wrong
  end
  count = string.sub(redis.call('hget', KEYS[1], first) or '', 1, 32)
end
local token = KEYS[2] and tonumber(redis.call('get', KEYS[2]) or 0) or 0
return {redis.call('pttl', KEYS[1]), holders, first, count, token}
