--!df flags=allow-undeclared-keys
-- Gives up levels of the write side of a read/write lock: makes the owner's count so; 0 ends the hold, whatever its count,
-- and announces it. Where the owner's own reads stay the lock becomes a readers', and those that wait may come in.
-- KEYS[1] the lock's hash
-- ARGV[1] owner "uuid:number:write"; ARGV[2] the count to make so; ARGV[3] lease in ms that a level that stays asks for,
-- 0 none; ARGV[4] PUBLISH, SPUBLISH or BOTH; ARGV[5] channel; ARGV[6] what the keys of its readers' levels begin with;
-- ARGV[7] 'asking' if the slot is on its way here; ARGV.free what frees the lock, from a script that includes this one
-- Replies {1, receivers, 0} done (receivers -1: the announcement was refused); {-1, 1 or 0} not held (1: by another).
-- Shapes 1ii -i
-- Atomic because the end of writing and its announcement must be one. One hash slot by the name's tag.
-- The first write is one that a full server still allows; the announcement may fail.
-- Only the hash must be there: what cannot be looked at, since the slot is being moved, may live.
local key, owner, count, lease = KEYS[1], ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
if count > 0 then
  local lower = include 'parts/lower'
  local reply = lower(key, owner, count, lease)
  reply[3] = reply[1] == 1 and 0 or nil
  return reply
end
local left = redis.call('pttl', key)
if redis.call('hexists', key, owner) == 0 then
  return {-1, left == -2 and 0 or 1}
end
local holds, longest, reads = include 'parts/holds', include 'parts/longest', {}
local free = ARGV.free or include 'parts/free'
for field, n in holds(key) do
  local its = field == owner and -2 or n > 1000 and left or longest(ARGV[6], field, n, false, ARGV[7])
  if its ~= -2 then
    reads[#reads + 1] = {ARGV[6] .. field .. ':rwlock_timeout:', n <= 1000 and n or 0}
    left = math.max(left, its, 1) -- what the hash has is theirs alone now
  end
end
if #reads == 0 then
  local outcome, told = free(key, ARGV[4], ARGV[5], '1', ARGV[3])
  return {outcome, told, 0}
end
redis.call('hdel', key, owner)
redis.call('hset', key, 'mode', 'read')
redis.call('pexpire', key, left)
local announce = include 'parts/announce'
local receivers = announce(ARGV[4], ARGV[5], '1')
local only = ARGV[7] == 'asking' and {'xx'} or {} -- one that is on its way here must not be there when it comes
for _, read in ipairs(reads) do
  for i = 1, read[2] do
    redis.pcall('set', read[1] .. i, 1, 'px', left, unpack(only))
  end
end
return {1, receivers, 0}
