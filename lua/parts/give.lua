-- Gives a lock from its holder to the first call in its queue: grants it to that call, or reserves it for a short time in
-- which the call takes it. If nobody stands there, or others have a turn, opens the lock and announces that.
-- Takes the lock's hash; the holder, its only field, or of a read/write lock all fields but the mode; PUBLISH, SPUBLISH or BOTH;
-- the channel; true if it is a turn of others; true if the lock has tokens; the first two entries of the queue, if the caller
-- knows them; of a read/write lock the message that announces the free lock
-- Returns 1, 2 if it is a turn of others, or 3 if it was given to another client than the holder's, which is never said of a
-- read/write lock; how many received the announcement, 0 if the lock was given, -1 if it was refused.
-- An entry is a form, of two characters, and the owner. The form is 'p' or 'w', and a digit k: a reservation lasts 50 ms times
-- 4 to the power of k. A release grants the lock for 2 s to an entry of the form 'p' that is not older than 750 ms. The client
-- knows when its call entered, so it knows that the lease cannot end sooner than 2 s after that. If a client does not subscribe
-- to its channel (parts/tell), a release drops its entry.
-- Others are the subscribers of the lock's channel, without those of ours, which subscribe to this:rlock too. They are
-- Redissons, and clients that do not queue. Each of them gets a mark behind the calls in the queue. When a mark comes to the
-- front, it is a turn of others. The last of the marks is '~z'. The message to the first call comes behind the announcement
-- of the free lock, so the next announcement that this call receives is another library's.
-- In the queue of a read/write lock writers stand. Our readers that wait come in together, so they have one mark for all of
-- them. Their clients subscribe to this:readers too.
-- The hash is never empty in between: while its slot is being moved, a key that is not there cannot be made.
local key, holder, way, channel, is_turn, has_tokens, front, sides = ...
local announce, tell = include 'parts/announce', include 'parts/tell'
local tag = channel:sub(sides and 16 or 23) -- behind 'redisson_rwlock', or 'redisson_lock__channel'
local queue, token = 'rlock_wait' .. tag, has_tokens and 'redisson_lock_token' .. tag

local is_known = true -- the server says who hears a message

local function ears(channels)
  local n = {}
  for _, numsub in ipairs(way == 'BOTH' and {'shardnumsub', 'numsub'} or {way == 'PUBLISH' and 'numsub' or 'shardnumsub'}) do
    local heard = redis.pcall('pubsub', numsub, unpack(channels))
    for i = 1, #channels do
      is_known = is_known and heard[2 * i] ~= nil
      n[i] = (n[i] or 0) + (heard[2 * i] or 1) -- the server does not count: somebody may hear it
    end
  end
  return n
end

local function is_mark(entry)
  return entry:byte() == 126
end

-- Drops the dead in front, and takes a mark that comes to the front. Returns the first call, the second, and the mark.
local function look(window, others)
  local first, second, mark
  for _ = 1, 64 do
    local entries, channels, gone = redis.pcall('zrange', queue, '0', window - 1), {}, {}
    if not entries[1] then
      break
    end
    for i, entry in ipairs(entries) do
      channels[i] = channel .. ':' .. entry:sub(3, 38)
    end
    local heard = ears(channels)
    for i, entry in ipairs(entries) do
      if is_mark(entry) then
        if others == 0 or not first and not mark then
          gone[#gone + 1] = entry
          mark = others > 0 and entry or nil
        end
      elseif heard[i] == 0 then
        gone[#gone + 1] = entry
      else
        first, second = first or entry, first and (second or entry)
      end
    end
    if gone[1] then
      redis.pcall('zrem', queue, unpack(gone))
    end
    if first or #entries < window then
      break
    end
  end
  return first, second, mark
end

local function add_marks(others)
  local last = redis.pcall('zrange', queue, '-1', '-1', 'WITHSCORES')
  if last[2] and not redis.pcall('zscore', queue, '~z') then
    others = math.min(others, 16)
    for i = 1, others do
      redis.pcall('zadd', queue, string.format('%.0f', last[2] + i), i == others and '~z' or string.format('~%02d', i))
    end
  end
end

-- A new hold of another owner. Returns its token, or true, if the server has made it. The first write is one that a full
-- server allows; then it allows the others. A token that is not there may be on its way here, and is not made. One that is
-- no number is somebody else's.
local function reserve(owner, lease)
  redis.call('pexpire', key, lease)
  local done = true
  if token then
    local now, last = redis.call('time'), redis.pcall('get', token)
    done = type(last) == 'string' and tonumber(last)
    done = done and string.format('%.0f', math.max(done + 1, now[1] * 1000000 + now[2]))
    done = done and not redis.pcall('set', token, done).err and done
  end
  if not sides then
    done = done and type(redis.pcall('hset', key, owner, '1')) == 'number' and done
    if owner ~= holder then -- otherwise its entry came back with a slot, and its client gives the lock back
      redis.call('hdel', key, holder)
    end
    return done
  end
  local writer = owner .. ':write'
  if type(redis.pcall('hset', key, 'mode', 'write', writer, '1')) ~= 'number' then
    redis.call('del', key)
    return false
  end
  for _, field in ipairs(holder) do
    if field ~= writer then
      redis.call('hdel', key, field)
    end
  end
  return done
end

-- The first two calls if the server says in one answer that there are no others, and that both calls are heard. Most
-- releases find it so.
local function usual()
  local one, two = front and front[1], front and front[2]
  if not one or way == 'BOTH' or sides or is_turn or is_mark(one) or two and is_mark(two) then
    return
  end
  local heard = redis.pcall('pubsub', way == 'PUBLISH' and 'numsub' or 'shardnumsub', channel, channel .. ':rlock',
    channel .. ':' .. one:sub(3, 38), channel .. ':' .. (two or one):sub(3, 38))
  if heard[8] and heard[2] <= heard[4] and heard[6] > 0 and heard[8] > 0 then
    return one, two
  end
end

local first, second = usual()
if not first then
  local function open() -- a lock without sides needs no right to DEL
    if sides then
      redis.call('del', key)
    else
      redis.call('hdel', key, holder)
    end
  end

  local counts, mark = ears({channel, channel .. ':rlock', sides and channel .. ':readers'}), nil
  local others = math.max(counts[1] - counts[2], 0) + math.min(counts[3] or 0, 1)
  if others > 0 then
    add_marks(others)
  end
  first, second, mark = look(others > 0 and 20 or 2, others)
  if not first then
    open()
    return others > 0 and 2 or 1, announce(way, channel, sides or '0')
  end
  if mark or is_turn then
    open()
    local told = announce(way, channel, sides or '0')
    tell(way, channel, first, 'o', 1 + redis.call('time')[2] % 4)
    return 2, told
  end
end
local lease, ticket, is_grant = 50 * 4 ^ first:sub(2, 2), redis.pcall('zscore', queue, first), false
if first:byte() == 112 and way ~= 'BOTH' and is_known then -- 'p'
  local now = redis.call('time')
  local age = now[1] * 1000000 + now[2] - (tonumber(ticket) or 0)
  is_grant = age >= 0 and age <= 750000
end
redis.pcall('zrem', queue, first)
local made = reserve(first:sub(3), is_grant and 2000 or lease)
if not made then
  tell(way, channel, first, 's', 0)
  return 1, 0
end
local told = tell(way, channel, first, is_grant and 'p' or 'g', is_grant and made ~= true and ticket .. ' ' .. made or ticket)
if is_grant and told < 0 then -- the server refused to send the message, so nobody hears of the grant
  redis.call('pexpire', key, lease)
  is_grant = false
end
if second and not is_grant then
  tell(way, channel, second, 's', lease + 2)
end
if sides and not second and redis.pcall('get', 'rlock_writer_waits' .. tag) == first:sub(3) .. ':write' then
  redis.pcall('del', 'rlock_writer_waits' .. tag) -- readers stand back for nobody
end
return (sides or first:sub(3, 38) == holder:sub(1, 36)) and 1 or 3, math.min(told, 0)
