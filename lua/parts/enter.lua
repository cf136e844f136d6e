-- Enters a call into a lock's queue on the server, or finds its entry there.
-- Takes the queue; the entry, a form and the owner; its ticket from before, 0 none
-- Returns the entry's place among the calls, from 1 on; its ticket; how many marks stand in front of it. Place 0: the
-- server refused it, or the queue's key is of another type, or cannot be looked at, since the slot is being moved.
-- The ticket is the entry's score: microseconds of the server's clock, but larger than the last one, so that a step of the
-- clock changes no order. A call that lost its entry passes the ticket, and gets that ticket plus 1: each entry has its own.
local queue, entry, ticket = ...
local score = redis.pcall('zscore', queue, entry)
if score then
  ticket = tonumber(score)
else
  local last = redis.pcall('zrange', queue, '-1', '-1', 'WITHSCORES')
  if last.err or type(redis.pcall('zrem', queue, entry)) == 'table' then -- this user cannot use the queue
    return 0, ticket, 0
  elseif ticket > 0 then
    ticket = ticket + 1
  else
    local now = redis.call('time')
    ticket = math.max(now[1] * 1000000 + now[2], (tonumber(last[2]) or 0) + 1)
  end
  if type(redis.pcall('zadd', queue, string.format('%.0f', ticket), entry)) == 'table' then
    return 0, ticket, 0
  end
end
local front = ticket and type(redis.pcall('pexpire', queue, '60000')) ~= 'table' and redis.pcall('zrank', queue, entry)
if type(front) ~= 'number' then -- an entry without an end would outlive all
  redis.pcall('zrem', queue, entry)
  return 0, 0, 0
end
local marks = 0
for _, name in ipairs(front > 0 and redis.pcall('zrange', queue, '0', math.min(front, 64) - 1) or {}) do
  marks = marks + (name:byte() == 126 and 1 or 0)
end
return front - marks + 1, ticket, marks
