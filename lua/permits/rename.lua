-- Gives one permit of a semaphore to another owner: from a client to a text, or from a text to a client. It frees permits that
-- the old owner gave back before a failover. If the permit expires sooner than before, a message wakes the waiters.
-- KEYS[1] the number of free permits; KEYS[2] the permits that are out, by their expiry in ms
-- ARGV[1] the permit, 16 bytes; ARGV[2] the other's; ARGV[3] lease in ms; ARGV[4] PUBLISH, SPUBLISH or BOTH; ARGV[5] channel
-- Replies {1, 0} done, now or by an earlier copy; {-1, 0} the owner does not hold it.
-- Shapes 1i -i
-- Atomic because somebody else could take the permit between two owners. One hash slot by the name's tag.
-- A late copy never shortens the lease. An expired permit counts as gone.
local number, permits, from, to = KEYS[1], KEYS[2], ARGV[1], ARGV[2]
local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local ends = now + ARGV[3]
local score = tonumber(redis.call('zscore', permits, to) or 0)
if score > 0 then
  if score <= now then
    return {-1, 0}
  end
  redis.call('zadd', permits, string.format('%.0f', math.max(score, ends)), to)
  return {1, 0}
end
score = tonumber(redis.call('zscore', permits, from) or 0)
if score <= now then
  return {-1, 0}
end
redis.call('zadd', permits, string.format('%.0f', ends), to)
redis.call('zrem', permits, from)
local more = 0
while more < 255 and from:sub(15) == "\0\0" and redis.call('zrem', permits, from:sub(1, 15) .. string.char(more + 1)) == 1 do
  more = more + 1
end
local exists = more > 0 and redis.call('exists', number) == 1
local free = exists and redis.call('incrby', number, more) or 0
if more > 0 or ends < score then
  local announce = include 'parts/announce'
  announce(ARGV[4], ARGV[5], string.format('%.0f', math.max(free, 0)))
end
return {1, 0}
