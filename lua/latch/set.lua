-- Closes a latch that is open: gives it a count.
-- KEYS[1] the count; KEYS[2] the parties: who counted down, and who set the count
-- ARGV[1] the count; ARGV[2] the caller's id; ARGV[3] PUBLISH, SPUBLISH or BOTH; ARGV[4] the channel
-- Replies {1, 0} done, now or by an earlier copy; {0, the count that it has} it is closed already.
-- Shapes 1i 0i
-- Atomic because the count and the parties must be one. One hash slot by the name's tag.
-- The TTL of a hundred years says that the parties are of this count: another library sets a count without a TTL.
local key, parties, id = KEYS[1], KEYS[2], ARGV[2]
local count = redis.call('get', key)
if count then
  if not tonumber(count) then
    return {err = 'WRONGTYPE the value under this key is no count of a latch'}
  end
  local is_ours = redis.call('pttl', key) > 0 and redis.call('hget', parties, '') == id
  return is_ours and {1, 0} or {0, tonumber(count)}
end
redis.call('del', parties)
redis.call('hset', parties, '', id)
redis.call('pexpire', parties, '2592000000')
redis.call('set', key, ARGV[1], 'px', '3162240000000')
local announce = include 'parts/announce'
announce(ARGV[3], ARGV[4], '1')
return {1, 0}
