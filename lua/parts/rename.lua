-- Gives a hold of one level to another owner, with a lease that begins now.
-- Takes the lock's hash; the owner's field; the other's field; the lease in ms
-- Returns the script's reply, and whether the lock ends sooner than it did. The reply is {1} done, now or by an earlier
-- copy; {-1, 1 or 0} not held (1: by another).
-- A copy that comes late never makes the lease shorter. The first write is one that a full server still allows.
local key, from, to, lease = ...
local ttl = redis.call('pttl', key)
if redis.call('hexists', key, to) == 1 then
  redis.call('pexpire', key, math.max(ttl, lease))
  return {1}, false
end
if redis.call('hexists', key, from) == 0 then
  return {-1, ttl == -2 and 0 or 1}, false
end
redis.call('pexpire', key, lease)
redis.call('hset', key, to, '1')
redis.call('hdel', key, from)
return {1}, ttl == -1 or lease < ttl
