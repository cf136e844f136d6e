-- Counts a latch down by one. The last countdown opens the latch, and its message wakes the waiters.
-- KEYS[1] the count; KEYS[2] the record: see set.lua
-- ARGV[1] the party, which counts once; '' any; ARGV[2] the call's id; ARGV[3] PUBLISH, SPUBLISH or BOTH; ARGV[4] the channel
-- Replies {1, how many are missing now}: counted, now or by an earlier copy or call; or the latch is open.
-- Shapes 1i
-- Atomic because the count and the record must be one. One hash slot by the name's tag.
-- A count without the TTL of set.lua was set by another library: a new round begins with it.
local key, record, party, id = KEYS[1], KEYS[2], ':' .. ARGV[1], ARGV[2]
local missing_of = include 'parts/missing'
local missing, wrong = missing_of(key)
if wrong then
  return wrong
end
if ARGV[1] ~= '' then
  local entry = redis.call('hget', record, party) or ''
  if entry:match('^%d+ %d+ (.*)$') == id then
    return {1, missing}
  end
  if missing > 0 then
    local round = tonumber(redis.call('hget', record, '#') or 0)
    if redis.call('pttl', key) < 1576800000000 then
      round = round + 1
      redis.call('hset', record, '#', round)
      redis.call('pexpire', key, '3162240000000')
    end
    if tonumber(entry:match('^%d+')) == round then
      return {1, missing}
    end
    local time = redis.call('time')
    local now = time[1] * 1000 + math.floor(time[2] / 1000)
    redis.call('hset', record, party, string.format('%.0f %.0f %s', round, now, id))
    redis.call('pexpire', record, '2592000000')
  end
end
if missing > 1 then
  return {1, redis.call('incrby', key, '-1')}
end
redis.call('pexpire', record, '60000')
if redis.call('del', key) == 1 and missing == 1 then
  local announce = include 'parts/announce'
  announce(ARGV[3], ARGV[4], '0')
end
return {1, 0}
