-- Deletes a latch, which opens it, and wakes all who wait.
-- KEYS[1] the count; KEYS[2] the parties: who counted down, and who set the count
-- ARGV[1] PUBLISH, SPUBLISH or BOTH; ARGV[2] the channel
-- Replies {1, 1 if there was one, else 0}.
-- Shapes 1i
-- Atomic because the count and the parties must be one. One hash slot by the name's tag.
local count = redis.call('get', KEYS[1])
if count and not tonumber(count) then
  return {err = 'WRONGTYPE the value under this key is no count of a latch'}
end
redis.call('del', KEYS[2])
if redis.call('del', KEYS[1]) == 0 then
  return {1, 0}
end
local announce = include 'parts/announce'
announce(ARGV[1], ARGV[2], '1')
return {1, 1}
