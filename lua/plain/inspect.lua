-- Says who holds a lock with one hash.
-- KEYS[1] the lock's hash; KEYS[2] the token of a fenced lock, or none
-- ARGV none
-- Replies {PTTL, number of holders, first holder, its count, token}; '' where it is free, 0 without a token.
-- Atomic so that the parts belong together. One key, so one hash slot.
local holders = redis.call('hlen', KEYS[1])
local first, count = '', ''
if holders > 0 then
  first = redis.call('hkeys', KEYS[1])[1]
  count = redis.call('hget', KEYS[1], first)
end
local token = KEYS[2] and tonumber(redis.call('get', KEYS[2]) or 0) or 0
return {redis.call('pttl', KEYS[1]), holders, first, count, token}
