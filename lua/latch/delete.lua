-- Deletes a latch, which opens it. The message wakes the waiters, Redisson's too.
-- KEYS[1] the count; KEYS[2] the record: see set.lua
-- ARGV[1] PUBLISH, SPUBLISH or BOTH; ARGV[2] the channel
-- Replies {1, 1 if there was one, else 0}.
-- Shapes 1i
-- Atomic because the count and the record must be one. One hash slot by the name's tag.
local missing_of = include 'parts/missing'
local _, wrong = missing_of(KEYS[1])
if wrong then
  return wrong
end
redis.call('pexpire', KEYS[2], '60000')
if redis.call('del', KEYS[1]) == 0 then
  return {1, 0}
end
local announce = include 'parts/announce'
announce(ARGV[1], ARGV[2], '0')
return {1, 1}
