-- Takes a call out of a lock's queue, whatever the form of its entry. If the first call leaves, the script tells the next call
-- to ask: another library may hold the lock, and only the first call hears of its release.
-- Takes the queue; PUBLISH, SPUBLISH or BOTH; the channel; the owner
-- Returns nothing.
local queue, way, channel, owner = ...

local function first_call()
  for _, entry in ipairs(redis.pcall('zrange', queue, '0', '16')) do
    if entry:byte() ~= 126 then -- no mark
      return entry
    end
  end
end

local first = first_call()
for span = 0, 3 do
  redis.pcall('zrem', queue, 'p' .. span .. owner, 'w' .. span .. owner)
end
if first and first:sub(3) == owner then
  local tell, second = include 'parts/tell', first_call()
  if second then
    tell(way, channel, second, 's', 0)
  end
end
