-- Opens a setnx lock by force, if its key still has the value that was seen.
-- KEYS[1] the key
-- ARGV[1] the value that was seen, at most 128 bytes of it
-- Replies {1, 0} opened; {-1, 1 or 0} it has another value (1), or is free (0).
-- Shapes 1i -i
-- Atomic because a lock that changed hands must not be opened. One key, so one hash slot.
local key = KEYS[1]
local held = redis.pcall('get', key)
if type(held) ~= 'string' or string.sub(held, 1, 128) ~= ARGV[1] then
  local value_of = include 'parts/value'
  local other, wrong = value_of(key, held)
  return wrong or {-1, other and 1 or 0}
end
redis.call('del', key)
return {1, 0}
