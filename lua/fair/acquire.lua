--!df flags=allow-undeclared-keys
-- Takes a fair lock; a call that waits and may not have it stands in the queue afterwards. Further levels go by
-- plain/acquire.
-- KEYS[1] the lock's hash; KEYS[2] the queue, a list of owners; KEYS[3] their scores: until when each of them counts,
-- by Redisson's rule; KEYS[4] the notes: what is known of those who stand in front of a free lock
-- ARGV[1] owner "uuid:number"; ARGV[2] lease in ms; ARGV[3] slot in ms, the longest wait that any peer passes;
-- ARGV[4] 1: may enqueue; ARGV[5] 1: no peer stood in front at the last reply; ARGV[6] PUBLISH, SPUBLISH or BOTH;
-- ARGV[7] channel, the head's own being this:owner; ARGV[8] whose receivers count: '' this server's, where there is no
-- cluster; a node's id: that node's; '-' nobody's yet: then nobody is dead because he has no receiver here; ARGV[9] 1: a
-- release may grant the lock to the owner. Then the time of this attempt is noted: it is the owner's ticket; ARGV[10]
-- 'asking' if the slot is on its way here: then nobody gets a ticket, since tickets that are here already could not come
-- Replies {1} granted; {0, PTTL, the holder or '', place in the queue or 0, peers in front, how many in front may yet
-- come, ticket or 0} busy.
-- Shapes 1 0isiiii
-- Atomic because queue, scores, notes and lock are one state. One hash slot by the name's tag, the channels too.
-- Owners of ours have a UUID of version 8; all others are peers, who add the sum of what stands in front of them to
-- their score. A score of ours is a slot and one for each peer in front, from the end of the lease on, so that nobody
-- need change when one of ours leaves. Nobody is put out by time: a peer that is alive may have an old sum.
local key, queue, scores, notes = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local owner, lease, slot = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local waits, alone, way, channel, settled = ARGV[4] == '1', ARGV[5] == '1', ARGV[6], ARGV[7], ARGV[8]
local asks = 'rlock_fair_asks' .. notes:sub(11) -- the tickets, by owner. A release tells an owner without one to ask
if redis.call('hlen', key) == 0 and not redis.call('lindex', queue, 0) and
    redis.call('zcard', scores) + redis.call('hlen', notes) == 0 then -- the usual case costs least
  if waits then
    redis.pcall('zrem', asks, owner)
  end
  redis.call('hset', key, owner, '1')
  local timed = redis.pcall('pexpire', key, ARGV[2])
  if timed == 1 then
    return {1}
  end
  local undo = include 'parts/undo'
  return undo(timed, key, owner) or {1}
end
local raise = include 'parts/raise'
local reply, ttl = raise(key, owner, lease, 1)
if reply then
  return reply
end

local free, holder, wrong = ttl == -2, ''
if not free then
  local holder_of = include 'parts/holder'
  holder, wrong = holder_of(key, redis.call('hlen', key))
  if wrong then
    return wrong
  end
end
local head = redis.call('lindex', queue, 0)
local time = (head or waits) and redis.call('time') or {0, 0}
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local base = now + math.max(ttl, 0)

local function ours(name)
  return name:byte(15) == 56 -- the digit 8
end

local changed = false -- whether others' entries or scores are not what they were

local function set_score(score, name)
  changed = true
  redis.pcall('zadd', scores, score, name)
end

-- Peers behind the head: up by what it was raised by, at most to what their places ask for; and, where one of them was
-- dead, down to a slot above that.
local function settle(by, was_dead)
  local n = ours(head) and 0 or 1
  for _, name in ipairs(redis.call('lrange', queue, 1, -1)) do
    if not ours(name) then
      n = n + 1
      local place, score = base + slot * n, tonumber(redis.call('zscore', scores, name))
      local to = score and math.max(score, math.min(score + by, place))
      to = to and was_dead and math.min(to, place + slot) or to
      if to ~= score then
        set_score(to, name)
      end
    end
  end
end

-- The head has what its place asks for, if it has much less, or much more under a free lock.
local function set_head()
  local score, place = tonumber(redis.call('zscore', scores, head)), base + slot
  if not score or score < base + slot / 2 or free and score > place + slot then
    set_score(place, head)
    if score and score < place and not ours(head) then
      settle(place - score, false)
    end
  end
end

-- The notes belong to one standstill, under one head with one score, at one node of a cluster: this is its mark.
local node = ''

local function mark()
  return head .. ' ' .. (redis.call('zscore', scores, head) or '') .. node
end

-- A note is "receivers since asks" of one that nobody hears, or that was asked; and 'a' of one that answered.
local is_silent, coming, asked, set, dropped = false, 0, {}, {}, {}

local function note(name, receivers, since, asks)
  set[#set + 1] = name
  set[#set + 1] = string.format('%d %.0f %d', receivers, since, asks)
end

local announce = include 'parts/announce'

local function ask(name, receivers, since, asks)
  if not asked[name] then
    asked[name] = true
    note(name, receivers, since, asks)
    if name ~= head then
      announce(way, channel .. ':' .. name, '0')
    end
  end
end

-- Whether one in front is dead: unheard for a second, or asked four times in three seconds without an answer. The head
-- is asked, and when it is silent for a second all of ours are: a process that stands still has many. A caller that does
-- not count listeners keeps the note of a caller that does, for as long as the latter may need to ask again.
local function is_dead(name, receivers, old)
  local was, since, asks = old:match('^(-?%d+) (%d+) (%d+)$')
  was = tonumber(was)
  if was == 0 and receivers < 0 and now - since < 2000 then
    coming = coming + 1
    return false
  elseif was and was ~= 0 and receivers ~= 0 and (was < 0 or receivers < 0) then
    was, receivers = math.max(was, receivers), math.max(was, receivers)
  end
  local age = was == receivers and now - since
  if name == head then
    is_silent = receivers ~= 0 and age and age >= 1000
  end
  if receivers == 0 then
    if not age then
      note(name, 0, now, 1)
    end
    return age and age >= 1000
  elseif not asked[name] and age and age >= 3000 and tonumber(asks) >= 4 then
    return true
  elseif name == head or is_silent and ours(name) and old ~= 'a' then
    ask(name, receivers, age and since or now, age and asks + 1 or 1)
    coming = coming + (name == head and (not age or age < 400) and 1 or 0)
  else
    coming = coming + 1
    if old ~= '' and old ~= 'a' then
      dropped[#dropped + 1] = name
    end
  end
end

-- How many hear each of these, behind its name; nil: that is not known.
local function ears(channels)
  local numsub = way == 'PUBLISH' and 'numsub' or 'shardnumsub'
  local heard = node == settled and redis.pcall('pubsub', numsub, unpack(channels))
  return heard and not heard.err and heard or nil
end

-- Whether the head is on its way, as far as anybody can know: heard, and asked just now. Nobody behind it matters then.
local function is_coming()
  local heard, old = ears({channel .. ':' .. head}), redis.call('hget', notes, head) or ''
  local receivers, since = heard and heard[2] or -1, old:match('^%-?%d+ (%d+)')
  if receivers == 0 or since and now - since >= 400 then
    return false
  end
  return not is_dead(head, receivers, old)
end

-- Takes the dead out of the first in front; true if there were any.
local function pass_over()
  coming = 0
  if is_coming() then
    return false
  end
  local names, channels, gone, peers = {}, {}, {}, false
  for i, name in ipairs(redis.call('lrange', queue, 0, 127)) do
    if name == owner then
      break
    end
    names[i], channels[i] = name, channel .. ':' .. name
  end
  local heard, old = ears(channels), redis.call('hmget', notes, unpack(names))
  for i, name in ipairs(names) do
    if is_dead(name, heard and heard[2 * i] or -1, old[i] or '') then
      gone[#gone + 1], dropped[#dropped + 1] = name, name
      peers = peers or not ours(name)
      redis.call('zrem', scores, name)
      redis.call('lrem', queue, 1, name)
      redis.pcall('zrem', asks, name)
      changed = true
    end
  end
  head = redis.call('lindex', queue, 0)
  if #gone > 0 and head then
    set_head()
    if peers then
      settle(0, true)
    end
  end
  return #gone > 0
end

local function write_notes()
  if #dropped > 0 then
    redis.pcall('hdel', notes, unpack(dropped))
  end
  if #set > 0 then
    redis.pcall('hset', notes, unpack(set))
  end
  set, dropped = {}, {}
end

local function look()
  if way ~= 'PUBLISH' or settled == '-' then
    local id = redis.pcall('cluster', 'myid')
    node = type(id) == 'string' and id or ''
  end
  if redis.call('hget', notes, '@') ~= mark() then
    local last = redis.call('hget', notes, '#') -- this is of no standstill
    redis.call('del', notes)
    set = last and {'#', last} or {}
  end
  set_head()
  while head and head ~= owner and pass_over() do
    write_notes()
  end
  if head then
    set[#set + 1] = '@'
    set[#set + 1] = mark()
  end
  write_notes()
  redis.pcall('pexpire', notes, 600000)
end

if free and head and head ~= owner then
  look()
end
local set_ends = include 'parts/ends'

if free and (not head or head == owner) then
  local rest = redis.call('zcard', scores) + redis.call('hlen', notes) -- of another type they are not ours to delete
  if head then
    redis.call('zrem', scores, owner)
    redis.call('lrem', queue, 1, owner)
    head = redis.call('lindex', queue, 0)
  end
  if waits then
    redis.pcall('zrem', asks, owner)
  end
  if head then
    free, base = false, now + lease
    set_head()
    if changed or not ours(head) then -- it may have been the last of ours
      set_ends(queue, scores, slot, now, ours(head))
    end
  elseif rest > 0 then
    redis.call('del', scores, notes)
  end
  local undo = include 'parts/undo'
  redis.call('hset', key, owner, '1')
  return undo(redis.pcall('pexpire', key, ARGV[2]), key, owner) or {1}
end

local function count_peers(n)
  local peers = 0
  for _, name in ipairs(n > 0 and redis.call('lrange', queue, 0, n - 1) or {}) do
    peers = peers + (ours(name) and 0 or 1)
  end
  return peers
end

-- Far back the one of ours that came last, half a second ago at most, has left its own count in the note '#': behind it
-- stand peers. A crowd that comes at once is counted once so.
local function guess_peers(n)
  local last, since, peers = (redis.call('hget', notes, '#') or ''):match('^(%S+) (%d+) (%d+)$')
  local at = last and now - since <= 500 and redis.call('lpos', queue, last, 'RANK', -1, 'MAXLEN', 64)
  peers = at and math.min(peers + n - 1 - at, n) or count_peers(n)
  redis.pcall('hset', notes, '#', string.format('%s %.0f %d', owner, at and since or now, peers))
  if not at then
    redis.pcall('pexpire', notes, 600000)
  end
  return peers
end

local place, peers, is_new = 0, 0, false
if waits then
  local at = redis.call('lpos', queue, owner)
  local front = at or redis.call('llen', queue)
  local score = tonumber(redis.call('zscore', scores, owner))
  place = front + 1
  if not at then
    peers = front < 64 and count_peers(front) or guess_peers(front)
  elseif not alone or score and score > base + slot * 1.5 then -- nobody comes in in front: none stays none; but the
    peers = count_peers(front) -- reply may be older than its place, and its score tells
  end
  local needs = base + slot * (1 + peers)
  if not at or not score or math.abs(score - needs) > math.min(1000, slot / 4) then
    redis.call('zadd', scores, needs, owner)
  end
  if not at then
    is_new = true
    redis.call('rpush', queue, owner)
  elseif redis.call('hexists', notes, owner) == 1 then
    redis.pcall('hset', notes, owner, 'a')
  end
end
if head and not free and head ~= owner then
  set_head()
end
if waits or changed then
  local refused = set_ends(queue, scores, slot, now, waits and ours(owner))
  if refused and is_new then -- it would stand there for ever
    redis.call('zrem', scores, owner)
    redis.call('lrem', queue, 0, owner)
    return refused
  end
end
if free and head then
  announce(way, channel .. ':' .. head, '0')
end
local ticket = 0
if waits and ARGV[9] == '1' and ARGV[10] ~= 'asking' then
  ticket = time[1] * 1000000 + time[2]
  local noted = redis.pcall('zadd', asks, string.format('%.0f', ticket), owner)
  ticket = type(noted) == 'number' and type(redis.pcall('pexpire', asks, 60000)) == 'number' and ticket or 0
end
return {0, ttl, holder, place, peers, coming, ticket}
