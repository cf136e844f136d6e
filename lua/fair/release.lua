--!df flags=allow-undeclared-keys
-- Gives up levels of a fair lock: makes the owner's count so; 0 ends the hold, whatever its count, and takes the owner out
-- of the queue. The head of the queue is granted the lock, or told that it is free.
-- KEYS[1] the lock's hash
-- ARGV[1] owner; ARGV[2] the count to make so; ARGV[3] lease in ms that a level that stays asks for, 0 none;
-- ARGV[4] slot in ms; ARGV[5] PUBLISH, SPUBLISH or BOTH; ARGV[6] channel, the head's own being this:owner; ARGV[7] the queue;
-- ARGV[8] the queue's scores; ARGV[9] the notes; ARGV[10] 'asking' if the slot is on its way here
-- Replies {1, receivers} done (receivers -1: the announcement was refused); {-1, 1 or 0} not held (1: by another).
-- A release grants the lock for 2 s to a head of ours with a ticket that is at most 750 ms old (fair/acquire). It publishes
-- 'p number ticket' on the head's channel. The client knows when its attempt with that ticket began, so it knows that the
-- lease cannot end sooner than 2 s after that. Peers do not know such a message: a release announces a free lock to them.
-- Shapes 1i -i
-- Atomic because queue, scores, notes and lock are one state. One hash slot by the name's tag, the channels too.
-- The first write is one that a full server still allows; the announcement may fail.
-- Only the hash must be there. What cannot be looked at beside it, since the slot is being moved, counts as gone.
local key, owner, count, lease, slot = KEYS[1], ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local way, channel, queue, scores, notes = ARGV[5], ARGV[6], ARGV[7], ARGV[8], ARGV[9]
if count > 0 then
  local lower = include 'parts/lower'
  return lower(key, owner, count, lease)
end
local head = redis.pcall('lindex', queue, 0)
local held, done, leaves
if not head then
  held, done = redis.pcall('hlen', key), redis.pcall('hdel', key, owner)
  leaves = redis.pcall('zrem', scores, owner) == 1 or done ~= 1
  if not leaves then
    return {1, 0} -- the usual case costs least
  end
end
local asks, announce, set_ends = 'rlock_fair_asks' .. notes:sub(11), include 'parts/announce', include 'parts/ends'
local numsub, is_moving = way == 'PUBLISH' and 'numsub' or 'shardnumsub', ARGV[10] == 'asking'
local time = head and redis.call('time') or {0, 0}
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local function ours(name)
  return name:byte(15) == 56 -- the digit 8: a UUID of that version
end

-- Makes the score of the first in the queue a slot above from, if it is much less, or much more under a free lock. If the
-- first is a peer with an old score, the peers behind it get later scores as well. Returns whether it changed a score.
local function set_score(name, from, is_free)
  local score = redis.pcall('zscore', scores, name)
  score = type(score) == 'string' and tonumber(score)
  if not score and is_moving then
    return false -- scores that are on their way must not be there when they come
  elseif score and score >= from + slot / 2 and not (is_free and score > from + slot * 2) then
    return false
  end
  redis.pcall('zadd', scores, from + slot, name)
  local by, n = score and from + slot - score or 0, 1
  for _, behind in ipairs(by > 0 and not ours(name) and redis.call('lrange', queue, 1, -1) or {}) do
    local old = not ours(behind) and redis.pcall('zscore', scores, behind)
    old = type(old) == 'string' and tonumber(old)
    n = n + (ours(behind) and 0 or 1)
    if old and old < from + slot * n then
      redis.pcall('zadd', scores, math.min(old + by, from + slot * n), behind)
    end
  end
  return true
end

-- Whether the head may be granted the lock: its ticket is new, and it hears its channel. Returns the ticket.
local function ticket_of(head)
  local ticket = type(head) == 'string' and head ~= owner and ours(head) and redis.pcall('zscore', asks, head)
  local age = type(ticket) == 'string' and time[1] * 1000000 + time[2] - ticket
  if age and age >= 0 and age <= 750000 and way ~= 'BOTH' and not is_moving and redis.pcall('hlen', key) == 1 and
      redis.pcall('hexists', key, owner) == 1 and not redis.pcall('zscore', scores, owner) then
    local heard = redis.pcall('pubsub', numsub, channel .. ':' .. head)
    return (heard[2] or 0) > 0 and ticket
  end
end

-- Grants the lock to the head. Returns false if the server refused that, or refused to tell the head: then nothing has
-- changed but the lease of a hold that ends. The hash is never empty in between: while its slot is being moved, a key that
-- is not there cannot be made. The first write is one that a full server allows; then it allows the others.
local function grant(head, ticket)
  local lease = math.max(redis.call('pttl', key), 2000) -- the head's client soon makes the lease full
  if redis.pcall('pexpire', key, 2000) ~= 1 or type(redis.pcall('hset', key, head, '1')) ~= 'number' then
    return false
  end
  if announce(way, channel .. ':' .. head, 'p ' .. head:sub(38) .. ' ' .. ticket) < 0 then
    redis.call('hdel', key, head)
    return false
  end
  redis.call('hdel', key, owner)
  redis.pcall('lrem', queue, 1, head)
  redis.pcall('zrem', scores, head)
  redis.pcall('zrem', asks, head)
  local noted, behind = redis.pcall('hdel', notes, head), redis.pcall('lindex', queue, 0)
  if not behind and type(noted) == 'number' then
    redis.pcall('del', notes)
  elseif type(behind) == 'string' then
    if set_score(behind, now + lease, false) or not ours(behind) then -- the head may have been the last of ours
      set_ends(queue, scores, slot, now, ours(behind))
    end
  end
  return true
end

local ticket = ticket_of(head)
if ticket and grant(head, ticket) then
  return {1, 1}
end
-- of another type one of the keys is somebody else's: what the owner has under the others is given up all the same
if head then
  held, done = redis.pcall('hlen', key), redis.pcall('hdel', key, owner)
  leaves = redis.pcall('zrem', scores, owner) == 1 or done ~= 1
end
local noted
if leaves then -- nobody's score counts on it
  redis.pcall('lrem', queue, 0, owner)
  redis.pcall('zrem', asks, owner)
  noted = redis.pcall('hdel', notes, owner)
  head = redis.pcall('lindex', queue, 0)
end
if type(done) == 'table' then
  return done
end
local taken = held > done and 1 or 0
if type(noted) == 'number' and not head then
  redis.pcall('del', notes)
end
if type(head) ~= 'string' or taken == 1 and not leaves then
  return {done == 1 and 1 or -1, done == 1 and 0 or taken}
end

if not ours(head) and redis.pcall('pttl', queue) ~= -1 then -- who left, or was put out, may have been the last of ours
  set_ends(queue, scores, slot, now)
end
if taken == 1 then
  return {done == 1 and 1 or -1, done == 1 and 0 or taken}
end
if set_score(head, now, true) then
  set_ends(queue, scores, slot, now, ours(head))
end

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
