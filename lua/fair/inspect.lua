-- Says who holds a fair lock, and how many wait.
-- KEYS[1] the lock's hash; KEYS[2] the queue
-- ARGV none
-- Replies {PTTL, number of holders, first holder, its count, 0, length of the queue}; '' where it is free.
-- Atomic so that the parts belong together. One hash slot by the name's tag.
local holders = redis.call('hlen', KEYS[1])
local first, count = '', ''
if holders > 0 then
  first = redis.call('hkeys', KEYS[1])[1]
  count = redis.call('hget', KEYS[1], first)
end
return {redis.call('pttl', KEYS[1]), holders, first, count, 0, redis.call('llen', KEYS[2])}
