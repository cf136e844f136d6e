--!df flags=allow-undeclared-keys
-- Gives up levels of the read side of a read/write lock: makes the owner's count so; 0 ends the hold, whatever its count.
-- The last reader frees the lock and announces it. One after which the rest ends sooner says so too. Under its owner's
-- write hold the lock stays a writer's.
-- KEYS[1] the lock's hash; then, of levels that stay, their keys, 1000 at most
-- ARGV[1] owner; ARGV[2] the count to make so; ARGV[3] lease in ms that a level that stays asks for, 0 none;
-- ARGV[4] PUBLISH, SPUBLISH or BOTH; ARGV[5] channel; ARGV[6] what the keys of its readers' levels begin with;
-- ARGV[7] 'asking' if the slot is on its way here; ARGV.free what frees the lock, from a script that includes this one
-- Replies {1, receivers, 1 or 0} done (receivers -1: the announcement was refused; 1: others hold it still); {-1, 1 or 0}
-- not held (1: a writer has it).
-- Shapes 1ii -i
-- Atomic because the look at who is left, the deletion and its announcement must be one. One hash slot by the name's tag.
-- The first write is one that a full server still allows; the announcement may fail.
-- Of the last release only the hash must be there: what cannot be looked at, since the slot is being moved, may live.
local key, owner, count, lease, levels = KEYS[1], ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[6]
local level = levels .. owner .. ':rwlock_timeout:'
local held = redis.call('hget', key, owner)
local ttl = redis.call('pttl', key)
local writing = redis.call('hget', key, 'mode') == 'write'
if not held then
  return {-1, writing and 1 or 0}
end
local found = math.min(tonumber(held) or 1, 1000)
local size = redis.call('hlen', key)
local is_last = count == 0 and size <= 2 and not writing -- as most releases are
local longest
if not is_last then
  local longest_of = include 'parts/longest'
  longest = longest_of(levels, owner, found)
end
if count > 0 then
  if longest == -2 then
    return {-1, writing and 1 or 0}
  end
  -- never pexpire 0: that deletes the key, and the next write would make one without an end
  if longest >= 0 or lease > 0 then
    redis.call('pexpire', key, math.max(ttl, longest, lease, 1))
  end
  for i = 1, found do
    local left = redis.pcall('pttl', level .. i)
    if i > count then
      redis.pcall('del', level .. i)
    elseif i == count and longest >= 0 then -- the hold's lease is that of its longest level: the highest one inherits it
      redis.call('set', level .. i, 1, 'px', math.max(longest, lease, 1))
    elseif type(left) == 'number' and left >= 0 and lease > left then
      redis.call('pexpire', level .. i, lease)
    end
  end
  if found > count then
    redis.call('hset', key, owner, count)
  end
  return {1, 0, 1}
end
-- Only where this hold is the longest can the rest end sooner than the hash; then the rest is looked at, unless there are
-- more than 1000. The hash may end a little later than its longest level: a clock that goes on in a script adds that
-- between PTTL and PEXPIRE.
local left, dead = ttl, {}
if is_last then
  left = -2
elseif not writing and longest ~= -2 and longest >= ttl - 100 and size <= 1001 then
  local living = include 'parts/living'
  left, dead = living(key, levels, ttl, owner, ARGV[7])
end
local outcome, receivers = 1, 0
if left == -2 then
  local free = ARGV.free or include 'parts/free'
  outcome, receivers = free(key, ARGV[4], ARGV[5], '0', ARGV[3])
else
  redis.call('hdel', key, owner, unpack(dead))
  if left >= 0 and (left < ttl or ttl == -1) then
    redis.call('pexpire', key, math.max(left, 1))
    if left < 5000 then -- the end is nearer than writers were told, and they would not look before it
      local announce = include 'parts/announce'
      receivers = announce(ARGV[4], ARGV[5], '0')
    end
  end
end
for i = 1, found do
  redis.pcall('del', level .. i)
end
return {outcome, receivers, left == -2 and 0 or 1}
