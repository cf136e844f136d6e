-- Closes a latch that is open: gives it a count.
-- KEYS[1] the count; KEYS[2] the record. Its fields: '#' the round; ':party' the round in which the party counted last, the
-- time in ms, and by which call; '=call' the same of a call that has set a count
-- ARGV[1] the count; ARGV[2] the call's id; ARGV[3] PUBLISH, SPUBLISH or BOTH; ARGV[4] the channel
-- Replies {1, 0} done, now or by an earlier copy; {0, the count that it has} it is closed already.
-- Shapes 1i 0i
-- Atomic because the count and the record must be one. One hash slot by the name's tag.
-- The TTL of a hundred years says that the record is of this count: another library sets a count without a TTL. The record
-- outlives its round, so that a late copy of a call is recognised. The script drops what is older than a minute.
local key, record, id = KEYS[1], KEYS[2], ARGV[2]
local missing_of = include 'parts/missing'
local missing, wrong = missing_of(key)
if wrong then
  return wrong
elseif redis.call('hexists', record, '=' .. id) == 1 then
  return {1, 0}
elseif missing > 0 then
  return {0, missing}
end
local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local round = tonumber(redis.call('hget', record, '#') or 0) + 1
local all = redis.call('hgetall', record)
for i = 1, #all, 2 do
  local at = all[i + 1]:match('^%d+ (%d+)')
  if at and now - at > 60000 then
    redis.call('hdel', record, all[i])
  end
end
redis.call('hset', record, '#', round, '=' .. id, string.format('%.0f %.0f', round, now))
redis.call('pexpire', record, '2592000000')
redis.call('set', key, ARGV[1], 'px', '3162240000000')
local announce = include 'parts/announce'
announce(ARGV[3], ARGV[4], '1')
return {1, 0}
