--!df flags=allow-undeclared-keys
-- Says who holds a lock with one hash.
-- KEYS[1] the lock's hash
-- ARGV[1] the token of a fenced lock, or none
-- Replies {PTTL, number of holders, the holder, its count, token}; '' where it is free, 0 without a token.
-- Shapes iissi
-- Atomic so that the parts belong together. One key, so one hash slot.
local holders = redis.call('hlen', KEYS[1])
local first, count = '', ''
if holders > 0 then
  local holder_of, wrong = include 'parts/holder'
  first, wrong = holder_of(KEYS[1], holders)
  if wrong then
    return wrong
  end
  count = string.sub(redis.call('hget', KEYS[1], first) or '', 1, 32)
end
local token = ARGV[1] and redis.pcall('get', ARGV[1])
if type(token) == 'table' and string.find(token.err, 'WRONGTYPE', 1, true) then
  return token
end
token = type(token) == 'string' and tonumber(token) or 0 -- also where it cannot be looked at: the slot is being moved
return {redis.call('pttl', KEYS[1]), holders, first, count, token}
