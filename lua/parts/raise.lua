-- Makes the count so of an owner who has a hold already. It never creates a hold, and never lowers a count.
-- Takes the lock's hash; the owner; the lease in ms, 0 only looks; the count to make so
-- Returns the script's reply, and the hash's PTTL. The reply is {1} granted; {-1, 1 or 0} a nested level whose hold is
-- gone (1: taken by another); or nil: the owner has no hold, and asks for a first level.
-- What is granted extends the lease, also where the count was right already: of the copies of a request any may be the
-- one whose answer counts. The first write is one that a full server still allows.
local key, owner, lease, count = ...
local held, ttl = redis.call('hget', key, owner), redis.call('pttl', key)
if not held then
  return count > 1 and {-1, ttl == -2 and 0 or 1} or nil, ttl
end
if lease > 0 then
  redis.call('pexpire', key, math.max(ttl, lease))
  if tonumber(held) < count then
    redis.call('hset', key, owner, count)
  end
end
return {1}, ttl
