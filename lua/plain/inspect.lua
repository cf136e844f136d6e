-- Says who holds a lock with one hash.
-- KEYS[1] the lock's hash; KEYS[2] the token of a fenced lock, or none
-- ARGV none
-- Replies {PTTL, number of holders, the holder, its count, token}; '' where it is free, 0 without a token.
-- Shapes iissi
-- Atomic so that the parts belong together. One key, so one hash slot.
local holders = redis.call('hlen', KEYS[1])
local first, count = '', ''
if holders > 0 then
  -- a lock has one field, its owner, or a mode besides; what else is under the key may be large
  for _, field in ipairs(holders <= 16 and redis.call('hkeys', KEYS[1]) or {}) do
    first = #field <= 128 and string.find(field, ':%d') and field or first
  end
  local mode = redis.call('hget', KEYS[1], 'mode')
  if mode ~= 'read' and mode ~= 'write' and (holders > 1 or first == '') then
    return {err = 'WRONGTYPE the hash under this key is no lock'}
  end
  count = string.sub(redis.call('hget', KEYS[1], first) or '', 1, 32)
end
local token = KEYS[2] and tonumber(redis.call('get', KEYS[2]) or 0) or 0
return {redis.call('pttl', KEYS[1]), holders, first, count, token}
