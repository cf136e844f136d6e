-- Takes a fair lock, or one level more of it; a call that waits and may not have it stands in the queue afterwards.
-- With count 0 it takes nothing: it only looks after the queue.
-- KEYS[1] the lock's hash; KEYS[2] the queue, a list of owners; KEYS[3] until when each of them counts, a sorted set
-- ARGV[1] owner "uuid:number"; ARGV[2] lease in ms; ARGV[3] the count to make so; ARGV[4] slot in ms;
-- ARGV[5] 1: may enqueue; ARGV[6] PUBLISH or SPUBLISH; ARGV[7] channel, the head's own being this:owner;
-- ARGV[8] the head's score as it was seen, if it is to be passed over; from ARGV[9] on pairs: whom to pass over, and
-- how many heard it then
-- Replies {1} granted; {-1, 1 or 0} a nested level whose hold is gone (1: taken by another);
-- {0, PTTL, a holder or '', place in the queue or 0} busy; the same and {score of the head, ms until then} where the
-- lock is free under another head, then for the first 16 in front pairs: owner, how many hear it (-1: not known).
-- Atomic because queue, scores and lock are one state. One hash slot by the name's tag, the channels too.
-- Scores are Redisson's sums by the server's clock: the last one's, or now and the lock's PTTL, and a slot.
local key, queue, scores = KEYS[1], KEYS[2], KEYS[3]
local owner, lease, count, slot = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local waits, channel = ARGV[5] == '1', ARGV[7]
local held, ttl = redis.call('hget', key, owner), redis.call('pttl', key)
if held then
  redis.call('pexpire', key, math.max(ttl, lease))
  if tonumber(held) < count then
    redis.call('hset', key, owner, count)
  end
  return {1}
end
if count > 1 then
  return {-1, ttl == -2 and 0 or 1}
end

local free, head, score = ttl == -2, redis.call('lindex', queue, 0), nil
local time = (head or waits) and redis.call('time') or {0, 0}
local now = time[1] * 1000 + math.floor(time[2] / 1000)

-- Who is past its time is out, by every peer's rule, unless it is here. A head without a score gets one: else it would
-- be there for ever, for peers too.
local function find_head()
  while head do
    score = tonumber(redis.call('zscore', scores, head))
    if not score then
      score = now + math.max(ttl, 0) + slot
      redis.pcall('zadd', scores, score, head)
    end
    if score > now or head == owner then
      return
    end
    redis.call('zrem', scores, head)
    redis.call('lrem', queue, 0, head)
    head = redis.call('lindex', queue, 0)
  end
end

-- Takes out of the queue whom the caller has found dead, if they are as they were; returns the others in front.
local function pass_over()
  local names, channels, seen, others = {}, {}, {}, {}
  for i, name in ipairs(redis.call('lrange', queue, 0, 15)) do
    if name == owner then
      break
    end
    names[i], channels[i] = name, channel .. ':' .. name
  end
  local heard = redis.pcall('pubsub', 'numsub', unpack(channels))
  for i = 9, #ARGV, 2 do
    seen[ARGV[i]] = tonumber(ARGV[i + 1])
  end
  for i, name in ipairs(names) do
    local n = heard.err and -1 or heard[2 * i]
    if seen[name] == n and (n == 0 or i == 1 and tonumber(ARGV[8]) == score) then
      redis.call('zrem', scores, name)
      redis.call('lrem', queue, 0, name)
    else
      others[#others + 1] = name
      others[#others + 1] = n
    end
  end
  return others
end

find_head()
local others = {}
if free and head and head ~= owner and (waits or count == 0) then
  others = pass_over()
  head = redis.call('lindex', queue, 0)
  find_head()
end

if free and count == 1 and (not head or head == owner) then
  if head and redis.call('zrem', scores, owner) == 1 then
    for _, name in ipairs(redis.call('zrange', scores, 0, -1)) do
      redis.call('zincrby', scores, -slot, name)
    end
  end
  if head then
    redis.call('lrem', queue, 0, owner)
  elseif redis.call('exists', scores) == 1 then
    redis.call('del', scores)
  end
  redis.call('hset', key, owner, 1)
  -- a lock without an end would be worse than none: undo it where the server does not permit the lease
  local leased = redis.pcall('pexpire', key, lease)
  if type(leased) == 'table' and leased.err then
    redis.pcall('hdel', key, owner)
    return leased
  end
  return {1}
end

-- A score is raised with each attempt to what the place asks for: sums stand still, and would put out who waits long.
-- So a new sum does not count where it is far from that: a last one that stood still for long, slots of those who were
-- passed over, which would add up.
local place = 0
if waits then
  local at = redis.call('lpos', queue, owner)
  place = (at or redis.call('llen', queue)) + 1
  local least = now + math.max(ttl, 0) + slot * place
  if at then
    if (tonumber(redis.call('zscore', scores, owner)) or 0) < least then
      redis.call('zadd', scores, least, owner)
    end
  else
    local last = redis.call('lindex', queue, -1)
    local sum = (last and tonumber(redis.call('zscore', scores, last)) or now + ttl) + slot
    redis.call('zadd', scores, math.abs(sum - least) > slot / 2 and least or sum, owner)
    redis.call('rpush', queue, owner)
  end
end
if not (free and head) then
  return {0, ttl, redis.call('hkeys', key)[1] or '', place}
end
redis.pcall(ARGV[6], channel .. ':' .. head, '0')
return {0, ttl, '', place, score, score - now, unpack(others)}
