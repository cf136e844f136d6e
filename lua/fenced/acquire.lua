-- Takes a fenced lock, or one level more of it: as plain/acquire, and each new hold gets a token.
-- KEYS[1] the lock's hash; KEYS[2] the token
-- ARGV[1] owner "uuid:number"; ARGV[2] lease in ms, 0 only looks; ARGV[3] the count to make so
-- Replies {1, token} granted (of a nested level 0: its client knows the hold's token); {0, PTTL, a holder} busy;
-- {-1, 1 or 0} a nested level whose hold is gone (1: taken by another).
-- Shapes 1i 0is -i
-- Atomic because a token belongs to one grant. Both keys in one hash slot by the name's tag.
-- The token is the larger of the last one plus 1 and the server's clock in microseconds: it grows also when the server
-- lost its data. Below 2^53, so exact in Lua's numbers, but never printed by %.17g.
local key, owner, count = KEYS[1], ARGV[1], ARGV[3]
local size = redis.call('hlen', key)
if size == 0 then
  if count ~= '1' then
    return {-1, 0}
  end
  if ARGV[2] == '0' then
    return {1}
  end
  local last, now = tonumber(redis.call('get', KEYS[2]) or 0) or 0, redis.call('time')
  local token = math.max(last + 1, tonumber(now[1]) * 1000000 + tonumber(now[2]))
  redis.call('hset', key, owner, '1')
  local timed = redis.pcall('pexpire', key, ARGV[2])
  local stored = timed == 1 and redis.pcall('set', KEYS[2], string.format('%.0f', token))
  if stored and stored.ok then
    return {1, token}
  end
  local undo = include 'parts/undo'
  return undo(stored or timed, key, owner) or {1, token}
end
local busy = include 'parts/busy'
local reply = size == 1 and count == '1' and busy(key, owner, size) -- the usual case costs least
if reply then
  return reply
end
local token = count == '1' and redis.call('get', KEYS[2]) -- of another type it fails before anything is written
local raise = include 'parts/raise'
reply = raise(key, owner, tonumber(ARGV[2]), tonumber(count))
if reply then
  reply[2] = reply[2] or tonumber(token or 0) or 0
  return reply
end
return busy(key, owner, size)
