-- Counts a latch down by one. The last one opens it, and wakes all who wait.
-- KEYS[1] the count; KEYS[2] the parties: who counted down, and who set the count
-- ARGV[1] the party, which counts once; '' any; ARGV[2] PUBLISH, SPUBLISH or BOTH; ARGV[3] the channel
-- Replies {1, how many are missing now}: counted, now or by an earlier copy or call; or the latch is open.
-- Shapes 1i
-- Atomic because the count and the parties must be one. One hash slot by the name's tag.
-- A count without a TTL was set by another library, so the parties are of an earlier count.
local key, parties, party = KEYS[1], KEYS[2], ':' .. ARGV[1]
local count = redis.call('get', key)
if not count then
  redis.call('del', parties)
  return {1, 0}
elseif not tonumber(count) then
  return {err = 'WRONGTYPE the value under this key is no count of a latch'}
end
if ARGV[1] ~= '' then
  if redis.call('pttl', key) < 0 then
    redis.call('del', parties)
    redis.call('pexpire', key, '3162240000000')
  end
  if redis.call('hset', parties, party, '1') == 0 then
    return {1, math.max(tonumber(count), 0)}
  end
  redis.call('pexpire', parties, '2592000000')
end
count = redis.call('incrby', key, '-1')
if count <= 0 then
  redis.call('del', key)
  redis.call('del', parties)
  if count == 0 then
    local announce = include 'parts/announce'
    announce(ARGV[2], ARGV[3], '0')
  end
end
return {1, math.max(count, 0)}
