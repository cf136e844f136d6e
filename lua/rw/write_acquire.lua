-- Takes the write side of a read/write lock, or one level more of it: makes the owner's count so, and never adds.
-- KEYS[1] the lock's hash; KEYS[2] what the keys of its readers' levels begin with; KEYS[3] where a writer that waits asks
-- readers to stand back, or none
-- ARGV[1] owner "uuid:number:write"; ARGV[2] lease in ms, 0 only looks; ARGV[3] the count to make so; ARGV[4] 1: the call waits
-- Replies {1} granted; {0, time to wait, a holder, 1 if readers are asked to stand back} busy; {-1, 1 or 0} a nested level
-- whose hold is gone (1: taken by another).
-- Shapes 1 0isi -i
-- Atomic because the look and the taking must be one. One hash slot by the name's tag.
-- A reader none of whose levels lives is dead, and must not keep the lock from a writer while others come and go: 16 are
-- dropped at a time, all if none lives. The time to wait is that of the last reader's lease, not of the hash. More than
-- 1000 fields are not looked into: the lock is busy until they are fewer, or the hash ends.
local key, owner, lease, count = KEYS[1], ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local mode, held = redis.call('hget', key, 'mode'), redis.call('hget', key, owner)
local ttl = redis.call('pttl', key)
if held then
  if lease == 0 then
    return {1}
  end
  redis.call('pexpire', key, math.max(ttl, lease))
  if tonumber(held) < count then
    redis.call('hset', key, owner, count)
  end
  return {1}
end
if count > 1 then
  return {-1, ttl == -2 and 0 or 1}
end
if KEYS[3] then
  redis.call('get', KEYS[3]) -- of another type it is somebody else's: SET would not mind
end
local left, holder, dead = ttl, '', {}
local size = redis.call('hlen', key)
if mode == 'read' and size <= 1000 then
  left = -2
  local fields = redis.call('hgetall', key)
  for f = 1, #fields, 2 do
    local field, n = fields[f], string.match(fields[f + 1], '^%d+$') and tonumber(fields[f + 1]) or 1e9
    if field ~= 'mode' then
      local its = -2
      if n > 1000 or string.sub(field, -6) == ':write' then
        its = ttl -- not ours to judge: it lives as long as the hash
      end
      for i = n > 1000 and 0 or n, 1, -1 do
        its = math.max(its, redis.call('pttl', KEYS[2] .. field .. ':rwlock_timeout:' .. i))
      end
      if its ~= -2 then
        holder = field
      elseif #dead < 16 then
        dead[#dead + 1] = field
      end
      left = math.max(left, its)
    end
  end
elseif ttl ~= -2 and mode ~= 'read' then
  -- a writer and its own reads, or a lock without sides; what else is under the key may be large
  local fields = size <= (mode == 'write' and 16 or 1) and redis.call('hkeys', key) or {}
  for _, field in ipairs(fields) do
    if holder == '' or string.sub(field, -6) == ':write' then
      holder = field
    end
  end
  if #fields == 0 or #holder > 128 or not (mode == 'write' or string.find(holder, ':%d')) then
    return {err = 'WRONGTYPE the hash under this key is no lock'}
  end
end
if left ~= -2 then
  if #dead > 0 then
    redis.call('hdel', key, unpack(dead))
  end
  local asks = KEYS[3] and ARGV[4] == '1'
  if asks then
    redis.pcall('set', KEYS[3], owner, 'px', 5000)
  end
  return {0, left, string.sub(holder, 1, 128), asks and 1 or 0}
end
if lease == 0 then
  return {1}
end
if mode then
  redis.call('del', key)
end
redis.call('hset', key, 'mode', 'write', owner, 1)
-- a lock without an end would be worse than none: undo it where the server does not permit the lease
local leased = redis.pcall('pexpire', key, lease)
if type(leased) == 'table' and leased.err then
  redis.pcall('hdel', key, 'mode', owner)
  return leased
end
if KEYS[3] then
  redis.pcall('del', KEYS[3])
end
return {1}
