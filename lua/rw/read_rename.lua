--!df flags=allow-undeclared-keys
-- Gives a read hold of one level to another owner: from a client to a text, or from a text to a client. If the lock ends
-- sooner then, a message wakes the waiting writers.
-- KEYS[1] the lock's hash; KEYS[2] the key of the other owner's level
-- ARGV[1] owner "uuid:number"; ARGV[2] the other owner; ARGV[3] lease in ms; ARGV[4] PUBLISH, SPUBLISH or BOTH; ARGV[5]
-- channel; ARGV[6] what the keys of readers' levels begin with; ARGV[7] 'asking' if the slot is on its way here
-- Replies {1} done, now or by an earlier copy; {-1, 1 or 0} the owner does not hold it (1: a writer does).
-- Shapes 1 -i
-- Atomic because a writer could come between two owners. One hash slot by the name's tag.
-- A copy that comes late never makes the lease shorter. The hash lasts as long as the longest of its holds. The first
-- write is one that a full server still allows.
local key, from, to, lease, levels = KEYS[1], ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[6]
local level = levels .. from .. ':rwlock_timeout:'
local longest, living = include 'parts/longest', include 'parts/living'
local ttl, held = redis.call('pttl', key), redis.call('hget', key, from)
if redis.call('hexists', key, to) == 1 then
  redis.call('pexpire', key, math.max(ttl, lease))
  redis.call('set', KEYS[2], 1, 'px', math.max(redis.call('pttl', KEYS[2]), lease))
  return {1}
end
local found = math.min(tonumber(held) or 0, 1000)
if not held or longest(levels, from, found, true, ARGV[7]) == -2 then
  return {-1, redis.call('hget', key, 'mode') == 'write' and 1 or 0}
end
local rest = redis.call('hlen', key) <= 1001 and living(key, levels, ttl, from, ARGV[7]) or ttl
local left = math.max(rest == -1 and ttl or rest, lease)
redis.call('pexpire', key, left)
redis.call('set', KEYS[2], 1, 'px', lease)
redis.call('hset', key, to, '1')
redis.call('hdel', key, from)
for i = 1, found do
  redis.pcall('del', level .. i)
end
if left < ttl then
  local announce = include 'parts/announce'
  announce(ARGV[4], ARGV[5], '0')
end
return {1}
