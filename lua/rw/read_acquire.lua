--!df flags=allow-undeclared-keys
-- Takes the read side of a read/write lock, or one level more of it: makes the owner's count so, and never adds.
-- KEYS[1] the lock's hash; then the keys of the owner's levels, as many as the count, 1000 at most; the last where a writer
-- that waits asks readers to stand back, or none
-- ARGV[1] owner "uuid:number"; ARGV[2] lease in ms, 0 only looks; ARGV[3] the count to make so; ARGV[4] the field of this owner's write
-- hold, or ''; ARGV[5] what the keys of its readers' levels begin with
-- Replies {1} granted; {0, PTTL, a holder} busy; {-1, 1 or 0} a nested level whose hold is gone (1: a writer has the lock).
-- Shapes 1 0is -i
-- Atomic because the look and the taking must be one. One hash slot by the name's tag.
-- A level i is a key of its own, ARGV[5]owner:rwlock_timeout:i, whose TTL is that level's lease: a hold lives while one of
-- its levels does, and the hash as long as the last of its holds. Levels beyond the 1000th are not looked into.
local key, owner, lease, count = KEYS[1], ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local level, yield = ARGV[5] .. owner .. ':rwlock_timeout:', KEYS[2 + math.min(count, 1000)]
local mode, held = redis.call('hget', key, 'mode'), redis.call('hget', key, owner)
local ttl = redis.call('pttl', key)
local writing = mode == 'write'
if held then
  local found, longest = math.min(tonumber(held) or 1, 1000), include 'parts/longest'
  if count > 1 and longest(ARGV[5], owner, found, true) == -2 then
    return {-1, writing and 1 or 0}
  end
  if lease == 0 then
    return {1}
  end
  redis.call('pexpire', key, math.max(ttl, lease))
  for i = 1, found do
    local left = redis.call('pttl', level .. i)
    if left ~= -2 or i <= count then -- one that is not declared may be on its way here
      redis.call('set', level .. i, 1, 'px', math.max(left, lease))
    end
  end
  for i = found + 1, count do
    redis.call('set', level .. i, 1, 'px', lease)
  end
  if found < count then
    redis.call('hset', key, owner, count)
  end
  return {1}
end
if count > 1 then
  return {-1, writing and 1 or 0}
end
local own = writing and ARGV[4] ~= '' and redis.call('hexists', key, ARGV[4]) == 1
if ttl ~= -2 and mode ~= 'read' and not own then
  local writer_of = include 'parts/writer'
  local holder, wrong = writer_of(key, mode, redis.call('hlen', key))
  return wrong or {0, ttl, holder}
end
if yield and not own and redis.call('exists', yield) == 1 then
  -- who asked may be gone without a word: look again soon
  return {0, math.min(redis.call('pttl', yield), 1000), string.sub(redis.call('get', yield), 1, 128)}
end
if lease == 0 then
  return {1}
end
if mode then
  redis.call('hset', key, owner, '1')
else
  redis.call('hset', key, 'mode', 'read', owner, '1')
end
local undo = include 'parts/undo'
local besides = mode and owner or 'mode' -- the mode goes too, where it came with this hold
return undo(redis.pcall('pexpire', key, math.max(ttl, lease)), key, owner, besides)
  or undo(redis.pcall('set', level .. '1', '1', 'px', ARGV[2]), key, owner, besides) or {1}
