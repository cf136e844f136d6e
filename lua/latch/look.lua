-- Says whether a latch is open.
-- KEYS[1] the count; KEYS[2] the record: see set.lua
-- ARGV none
-- Replies {1, 0} open; {0, how many are missing} closed.
-- Shapes 1i 0i
-- One hash slot by the name's tag. A latch that is not there is open, and so is one whose count is negative.
-- The script declares the second key so that the server refuses it while the slot is being moved and a key is missing: the
-- latch may then be on the other server, and closed.
local count = redis.call('get', KEYS[1]) or '0'
if not count:find('^%-?%d+$') then
  return {err = 'WRONGTYPE the value under this key is not the count of a latch'}
end
return tonumber(count) > 0 and {0, tonumber(count)} or {1, 0}
