-- Says which waiters of a fair lock are dead: those whose channel nobody hears.
-- Takes the queue; PUBLISH, SPUBLISH or BOTH; the lock's channel, a waiter's own being this:owner
-- Returns their owners, among the first thousand; none where the server does not say how many hear a channel.
-- One that hears all channels by a pattern is not counted, and is no waiter.
local queue, way, channel = ...
local numsub, dead, from = way == 'PUBLISH' and 'numsub' or 'shardnumsub', {}, 0
repeat
  local names, channels = redis.pcall('lrange', queue, from, from + 126), {}
  for i, name in ipairs(names) do
    channels[i] = channel .. ':' .. name
  end
  local heard = #names > 0 and redis.pcall('pubsub', numsub, unpack(channels)) or {}
  for i, name in ipairs(names) do
    dead[#dead + 1] = heard[2 * i] == 0 and name or nil
  end
  from = from + 127
until #names < 127 or from > 1000
return dead
