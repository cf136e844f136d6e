-- Answers an attempt on a lock that has one hash, and that others hold.
-- Takes the lock's hash; the owner who asks; the number of the hash's fields, not 0
-- Returns the script's reply: {0, PTTL, a holder}, or an error if the hash is no lock; nothing if the only field is the owner's.
local key, owner, size = ...
local holder_of = include 'parts/holder'
local holder, wrong = holder_of(key, size)
if size > 1 or holder ~= owner then
  return wrong or {0, redis.call('pttl', key), holder}
end
