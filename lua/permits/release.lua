-- Gives back permits of a semaphore: makes the owner's permits so many. 0 ends the hold.
-- KEYS[1] the number of free permits; KEYS[2] the permits that are out, by their expiry in ms
-- ARGV[1] what the owner's permits begin with, 14 bytes; ARGV[2] how many stay; ARGV[3] how many the owner asked for;
-- ARGV[4] lease in ms of the permits that stay, 0 as it is; ARGV[5] PUBLISH, SPUBLISH or BOTH; ARGV[6] the channel
-- Replies {1, receivers} done (receivers -1: the announcement was refused); {-1, 0} not held any more.
-- Shapes 1i -i
-- Atomic because a permit must be free exactly once. One hash slot by the name's tag.
-- After a failover the owner may have more permits than it asked for: the new primary may have missed an earlier release.
-- The script frees expired permits too. The hold is lost if a permit that should stay is missing or has expired. If none should
-- stay, the first permit alone decides: the others may belong to a level that a failed release gave up. If the number is gone,
-- the script does not create it, because it does not know how many permits there are. While the slot is being moved, it
-- cannot read a set that it has emptied.
local number, permits, ids, stay, lease = KEYS[1], KEYS[2], ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[4])
local most = tonumber(ARGV[3])
local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local permit = include 'parts/permit'
local lost, gone, receivers = false, {}, 0
for i = 0, 65535 do
  local id = permit(ids, i)
  local score = tonumber(redis.call('zscore', permits, id) or 0)
  if score == 0 and i >= most then
    break
  end
  lost = lost or i < math.max(stay, 1) and score <= now
  if i < stay then
    if score > now and now + lease > score then
      redis.call('zadd', permits, string.format('%.0f', now + lease), id)
    end
  elseif score > 0 then
    gone[#gone + 1] = id
  end
end
for _, id in ipairs(gone) do
  redis.call('zrem', permits, id)
end
if #gone > 0 and redis.call('exists', number) == 1 then
  local free = redis.call('incrby', number, #gone)
  local announce = include 'parts/announce'
  receivers = free > 0 and announce(ARGV[5], ARGV[6], string.format('%.0f', free)) or 0
end
return lost and {-1, 0} or {1, receivers}
