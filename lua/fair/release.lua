--!df flags=allow-undeclared-keys
-- Gives up levels of a fair lock: makes the owner's count so; 0 ends the hold, whatever its count, takes the owner out
-- of the queue, and announces a free lock to the head.
-- KEYS[1] the lock's hash
-- ARGV[1] owner; ARGV[2] the count to make so; ARGV[3] lease in ms that a level that stays asks for, 0 none;
-- ARGV[4] slot in ms; ARGV[5] PUBLISH, SPUBLISH or BOTH; ARGV[6] channel, the head's own being this:owner; ARGV[7] the queue;
-- ARGV[8] the queue's scores; ARGV[9] the notes; ARGV[10] 'asking' if the slot is on its way here
-- Replies {1, receivers} done (receivers -1: the announcement was refused); {-1, 1 or 0} not held (1: by another).
-- Shapes 1i -i
-- Atomic because queue, scores, notes and lock are one state. One hash slot by the name's tag, the channels too.
-- The first write is one that a full server still allows; the announcement comes last, and may fail.
-- Only the hash must be there. What cannot be looked at beside it, since the slot is being moved, counts as gone.
local key, owner, count, lease, slot = KEYS[1], ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local way, channel, queue, scores, notes = ARGV[5], ARGV[6], ARGV[7], ARGV[8], ARGV[9]
if count > 0 then
  local lower = include 'parts/lower'
  return lower(key, owner, count, lease)
end
local held = redis.pcall('hlen', key)
local done = redis.pcall('hdel', key, owner)
-- of another type one of the keys is somebody else's: what the owner has under the others is given up all the same
local leaves, noted = redis.pcall('zrem', scores, owner) == 1 or done ~= 1
if leaves then -- nobody's score counts on it
  redis.pcall('lrem', queue, 0, owner)
  noted = redis.pcall('hdel', notes, owner)
end
if type(done) == 'table' then
  return done
end
local head, taken = redis.pcall('lindex', queue, 0), held > done and 1 or 0
if type(noted) == 'number' and not head then
  redis.pcall('del', notes)
end
if type(head) ~= 'string' or taken == 1 and not leaves then
  return {done == 1 and 1 or -1, done == 1 and 0 or taken}
end

local function ours(name)
  return name:byte(15) == 56 -- the digit 8: a UUID of that version
end

local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local set_ends = include 'parts/ends'
if not ours(head) and redis.pcall('pttl', queue) ~= -1 then -- who left, or was put out, may have been the last of ours
  set_ends(queue, scores, slot, now)
end
if taken == 1 then
  return {done == 1 and 1 or -1, done == 1 and 0 or taken}
end

-- The head counts for a slot from now on; if it is a peer whose score had become old, so have those of the peers behind.
local score = redis.pcall('zscore', scores, head)
score = type(score) == 'string' and tonumber(score)
local on_their_way = not score and ARGV[10] == 'asking' -- scores that are must not be there when they come
if not on_their_way and (not score or score < now + slot / 2 or score > now + slot * 2) then
  redis.pcall('zadd', scores, now + slot, head)
  local by, n = score and now + slot - score or 0, 1
  for _, name in ipairs(by > 0 and not ours(head) and redis.call('lrange', queue, 1, -1) or {}) do
    local old = not ours(name) and redis.pcall('zscore', scores, name)
    old = type(old) == 'string' and tonumber(old)
    n = n + (ours(name) and 0 or 1)
    if old and old < now + slot * n then
      redis.pcall('zadd', scores, math.min(old + by, now + slot * n), name)
    end
  end
  set_ends(queue, scores, slot, now, ours(head))
end

local announce, numsub = include 'parts/announce', way == 'PUBLISH' and 'numsub' or 'shardnumsub'

-- A head that nobody hears is dead: the first of ours behind it that is heard will look, if it is among the next
-- thousand. Who hears all channels by a pattern is among the receivers, and is nobody.
local function wake_next()
  for from = 1, 1016, 127 do
    local names, channels = redis.call('lrange', queue, from, from + 126), {}
    for i, name in ipairs(names) do
      channels[i] = channel .. ':' .. name
    end
    local heard = #names > 0 and redis.call('pubsub', numsub, unpack(channels))
    for i, name in ipairs(names) do
      if heard[2 * i] > 0 and ours(name) then
        announce(way, channels[i], '0')
        return
      end
    end
  end
end

local own = channel .. ':' .. head
local receivers = announce(way, own, '0')
local heard = redis.pcall('pubsub', numsub, own)
if heard[2] == 0 then
  wake_next()
end
return {done == 1 and 1 or -1, done == 0 and 0 or receivers}
