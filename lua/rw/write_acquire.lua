--!df flags=allow-undeclared-keys
-- Takes the write side of a read/write lock, or one level more of it: makes the owner's count so, and never adds.
-- KEYS[1] the lock's hash; KEYS[2] where a writer that waits asks readers to stand back, or none
-- ARGV[1] owner "uuid:number:write"; ARGV[2] lease in ms, 0 only looks; ARGV[3] the count to make so; ARGV[4] 1: the call waits;
-- ARGV[5] what the keys of its readers' levels begin with; ARGV[6] 'asking' if the slot is on its way here;
-- ARGV.others_wait true if other writers stand in the lock's queue, from a script that includes this one
-- Replies {1} granted; {0, time to wait, a holder, 1 if readers are asked to stand back} busy; {-1, 1 or 0} a nested level
-- whose hold is gone (1: taken by another).
-- Shapes 1 0isi -i
-- Atomic because the look and the taking must be one. One hash slot by the name's tag.
-- A reader none of whose levels lives is dead, and must not keep the lock from a writer while others come and go: 16 are
-- dropped at a time, all if none lives. The time to wait is that of the last reader's lease, not of the hash. More than
-- 1000 fields are not looked into: the lock is busy until they are fewer, or the hash ends.
local key, owner, lease, count = KEYS[1], ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local raise, mode = include 'parts/raise', redis.call('hget', key, 'mode')
local reply, ttl = raise(key, owner, lease, count)
if reply then
  return reply
end
if KEYS[2] then
  redis.call('get', KEYS[2]) -- of another type it is somebody else's: SET would not mind
end
local left, dead, holder = ttl, {}, ''
local size = redis.call('hlen', key)
if mode == 'read' and size <= 1000 then
  local living = include 'parts/living'
  left, dead, holder = living(key, ARGV[5], ttl, nil, ARGV[6])
elseif ttl ~= -2 and mode ~= 'read' then
  local writer_of, wrong = include 'parts/writer'
  holder, wrong = writer_of(key, mode, size)
  if wrong then
    return wrong
  end
end
if left ~= -2 then
  if #dead > 0 then
    redis.call('hdel', key, unpack(dead))
  end
  local asks = KEYS[2] and ARGV[4] == '1'
  if asks then
    redis.pcall('set', KEYS[2], owner, 'px', 5000)
  end
  return {0, left, string.sub(holder, 1, 128), asks and 1 or 0}
end
if lease == 0 then
  return {1}
end
local readers = {} -- all dead
for _, field in ipairs(mode and redis.call('hkeys', key) or {}) do
  readers[#readers + 1] = field ~= 'mode' and field or nil
end
redis.call('hset', key, 'mode', 'write', owner, '1')
local undo = include 'parts/undo'
local refused = undo(redis.pcall('pexpire', key, ARGV[2]), key, 'mode', owner, unpack(readers))
if refused then
  return refused
end
if #readers > 0 then
  redis.call('hdel', key, unpack(readers))
end
if KEYS[2] and not ARGV.others_wait and redis.pcall('get', KEYS[2]) == owner then
  redis.pcall('del', KEYS[2])
end
return {1}
