-- Tells the first two calls in a lock's queue to ask.
-- Takes the queue; PUBLISH, SPUBLISH or BOTH; the lock's channel
-- Returns nothing.
local queue, way, channel = ...
local tell = include 'parts/tell'
for _, entry in ipairs(redis.pcall('zrange', queue, 0, 1)) do
  if entry:byte() ~= 126 then -- no mark
    tell(way, channel, entry, 's', 0)
  end
end
