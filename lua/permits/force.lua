-- Frees all permits of a semaphore by force, if the permits that are out are still the same.
-- KEYS[1] the number of free permits; KEYS[2] the permits that are out, by their expiry in ms
-- ARGV[1] the digest of the permits that the caller saw; ARGV[2] PUBLISH, SPUBLISH or BOTH; ARGV[3] the channel
-- Replies {1, receivers} freed (receivers -1: the announcement was refused); {-1, 1 or 0} others are out (1), or none is (0).
-- Shapes 1i -i
-- Atomic because permits that changed hands must not be freed. One hash slot by the name's tag.
local number, permits = KEYS[1], KEYS[2]
local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local all, which_are_out = redis.call('zrange', permits, '0', '-1', 'WITHSCORES'), include 'parts/out'
local out, digest = which_are_out(all, now)
if #out == 0 or digest ~= ARGV[1] then
  return {-1, #out > 0 and 1 or 0}
end
redis.call('del', permits)
local free = redis.call('exists', number) == 1 and redis.call('incrby', number, #all / 2) or 0
local announce = include 'parts/announce'
return {1, announce(ARGV[2], ARGV[3], string.format('%.0f', math.max(free, 0)))}
