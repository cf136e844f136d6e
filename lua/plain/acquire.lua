-- Takes a reentrant lock, or one level more of it: makes the owner's count so, and never adds.
-- KEYS[1] the lock's hash
-- ARGV[1] owner "uuid:number"; ARGV[2] lease in ms, 0 only looks; ARGV[3] the count to make so
-- Replies {1} granted; {0, PTTL, a holder} busy; {-1, 1 or 0} a nested level whose hold is gone (1: taken by another).
-- Shapes 1 0is -i
-- Atomic because the look and the taking must be one. One key, so one hash slot.
-- A conversion costs the server as much as half a call, and a number that is handed on more than one: numbers stay text.
local key, owner, count = KEYS[1], ARGV[1], ARGV[3]
local size = redis.call('hlen', key)
if size == 0 then
  if count ~= '1' then
    return {-1, 0}
  end
  if ARGV[2] == '0' then
    return {1}
  end
  redis.call('hset', key, owner, '1')
  local timed = redis.pcall('pexpire', key, ARGV[2])
  if timed == 1 then
    return {1}
  end
  local undo = include 'parts/undo'
  return undo(timed, key, owner) or {1}
end
local busy = include 'parts/busy'
local reply = size == 1 and count == '1' and busy(key, owner, size) -- the usual case costs least
if reply then
  return reply
end
local raise = include 'parts/raise'
reply = raise(key, owner, tonumber(ARGV[2]), tonumber(count))
if reply then
  return reply
end
return busy(key, owner, size)
