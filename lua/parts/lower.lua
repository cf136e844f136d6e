-- Gives up levels of a hold of which one or more stay: makes the owner's count so, and never raises it.
-- Takes the lock's hash; the owner; the count to make so; the lease in ms that a level that stays asks for, 0 none
-- Returns the script's reply: {1, 0} done; {-1, 1 or 0} not held (1: by another).
-- The first write is one that a full server still allows.
local key, owner, count, lease = ...
local held = redis.call('hget', key, owner)
if not held then
  return {-1, redis.call('exists', key)}
end
-- never pexpire 0: that deletes the key, and the next write would make one without an end
local ttl = redis.call('pttl', key)
if ttl >= 0 or lease > 0 then
  redis.call('pexpire', key, math.max(ttl, lease, 1))
end
if tonumber(held) > count then
  redis.call('hset', key, owner, count)
end
return {1, 0}
