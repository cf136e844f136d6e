-- Gives up levels of a fair lock: makes the owner's count so; 0 ends the hold, whatever its count, takes the owner out
-- of the queue, and announces a free lock to the head.
-- KEYS[1] the lock's hash; KEYS[2] the queue; KEYS[3] the queue's scores
-- ARGV[1] owner; ARGV[2] the count to make so; ARGV[3] lease in ms that a level that stays asks for, 0 none;
-- ARGV[4] slot in ms; ARGV[5] PUBLISH or SPUBLISH; ARGV[6] channel, the head's own being this:owner
-- Replies {1, receivers} done (receivers -1: the announcement was refused); {-1, 1 or 0} not held (1: by another).
-- Where the lock is free under a head, both go on: {.., '', 0, its score, ms until then, head, how many hear it}.
-- Atomic because queue, scores and lock are one state. One hash slot by the name's tag, the channels too.
-- The first write is one that a full server still allows; the announcement comes last, and may fail.
local key, queue, scores = KEYS[1], KEYS[2], KEYS[3]
local owner, count, lease = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
if count > 0 then
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
end
local done = redis.call('hdel', key, owner)

-- those behind give back the slot that this one has added, and once
local left = redis.call('zrem', scores, owner)
local at = (left == 1 or done == 0) and redis.call('lpos', queue, owner)
if at then
  local behind = left == 1 and redis.call('lrange', queue, at + 1, -1) or {}
  redis.call('lrem', queue, 0, owner)
  for _, name in ipairs(behind) do
    if redis.call('zscore', scores, name) then
      redis.call('zincrby', scores, -ARGV[4], name)
    end
  end
end
local taken = redis.call('exists', key)
local head = taken == 0 and redis.call('lindex', queue, 0)
if not head then
  return {done == 1 and 1 or -1, done == 1 and 0 or taken}
end

local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local score = tonumber(redis.call('zscore', scores, head))
while head and score and score <= now do -- by every peer's rule
  redis.call('zrem', scores, head)
  redis.call('lrem', queue, 0, head)
  head = redis.call('lindex', queue, 0)
  score = head and tonumber(redis.call('zscore', scores, head))
end
if not head then
  return {done == 1 and 1 or -1, 0}
end
local own = ARGV[6] .. ':' .. head
local heard = redis.pcall('pubsub', 'numsub', own)
local receivers = redis.pcall(ARGV[5], own, '0')
receivers = type(receivers) == 'number' and receivers or -1
score = score or now
return {done == 1 and 1 or -1, done == 1 and receivers or 0, '', 0, score, score - now, head, heard.err and -1 or heard[2]}
