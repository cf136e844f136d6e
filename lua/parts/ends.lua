-- Gives a fair lock's queue and its scores their end. While one of ours stands in the queue both end later than every
-- score, and each attempt of a waiter puts that off. While peers alone stand there they have no end, since no peer would
-- put it off.
-- Takes the queue; its scores; slot in ms; the server's time in ms; true if one of ours is known to stand there
-- Returns the refusal, if the server refuses an end; else nothing.
-- By pcall: a key of another type is somebody else's, and what cannot be looked at, since the slot is being moved, keeps
-- the end that it has. Both end at the same instant: scores without a list would keep a peer out of the queue.
local queue, scores, slot, now, stands = ...
local at, names = 0
repeat
  names = stands and {} or redis.pcall('lrange', queue, at, at + 63)
  if names.err then
    return
  end
  for _, name in ipairs(names) do
    stands = stands or name:byte(15) == 56 -- the digit 8: a UUID of that version
  end
  at = at + 64
until stands or #names < 64
local last = redis.pcall('zrange', scores, -1, -1, 'WITHSCORES')
if last.err then
  return
end
if not stands then
  redis.pcall('persist', scores)
  redis.pcall('persist', queue)
  return
end
-- a wait of more than a day counts as a day: Redisson allows one of 292 million years
last = math.min(math.max(tonumber(last[2] or 0), now), now + 86400000)
local ends = math.floor(last + math.max(slot, 60000))
local done = redis.pcall('pexpireat', scores, ends)
if type(done) == 'table' then
  return done
end
redis.pcall('pexpireat', queue, ends)
