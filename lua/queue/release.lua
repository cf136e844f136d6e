--!df flags=allow-undeclared-keys
-- Gives up levels of a lock with one holder: makes the owner's count so; 0 ends the hold, whatever its count, and gives the
-- lock to the first call in its queue. An owner without a hold leaves the queue.
-- KEYS[1] the lock's hash
-- ARGV[1] owner; ARGV[2] the count to make so; ARGV[3] lease in ms that a level that stays asks for, 0 none; of the last level
-- 1: it is a turn of others; ARGV[4] PUBLISH, SPUBLISH or BOTH; ARGV[5] channel; ARGV.has_tokens of a fenced lock, from its script
-- Replies {1, receivers} done, {2, receivers} if it is a turn of others, {3, receivers} if it was given to another client
-- (parts/give); {-1, 1 or 0} not held (1: by another).
-- Shapes 1i 2i 3i -i
-- Atomic because nobody may take the lock between its release and the next in the queue. One hash slot: keys, and the
-- channels by their tag.
-- If it runs twice, it gives the lock once: the second time it finds no hold.
local key, owner, way, channel = KEYS[1], ARGV[1], ARGV[4], ARGV[5]
if ARGV[2] ~= '0' then
  local lower = include 'parts/lower'
  return lower(key, owner, tonumber(ARGV[2]), tonumber(ARGV[3]))
end

local queue = 'rlock_wait' .. channel:sub(23) -- behind 'redisson_lock__channel'
local front = redis.pcall('zrange', queue, '0', '1')
if way ~= 'BOTH' and not front[1] then -- nobody stands there, as in most releases
  if redis.call('hdel', key, owner) == 0 then
    return {-1, redis.call('exists', key)}
  end
  local heard = redis.pcall(way, channel, '0')
  if heard == 0 then
    return {1, 0}
  end
  local counts = redis.pcall('pubsub', way == 'PUBLISH' and 'numsub' or 'shardnumsub', channel, channel .. ':rlock')
  return {(counts[2] or 1) > (counts[4] or 1) and 2 or 1, type(heard) == 'number' and heard or -1}
end

local held = redis.pcall('hexists', key, owner)
if held ~= 1 then
  held = redis.pcall('hdel', key, owner) -- an error too: the key is somebody else's, or this is not permitted
  local leave = include 'parts/leave'
  leave(queue, way, channel, owner)
  return held == 0 and {-1, redis.call('exists', key)} or held
end
if redis.call('hlen', key) > 1 then
  redis.call('hdel', key, owner)
  return {1, 0}
end
local give = include 'parts/give'
return {give(key, owner, way, channel, ARGV[3] == '1', ARGV.has_tokens, front)}
