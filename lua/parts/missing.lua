-- Says how many parties of a latch are missing.
-- Takes the key
-- Returns the number, 0 if the latch is open; or nil and the error if the value is not a count.
local key = ...
local count = redis.call('get', key) or '0'
if not count:find('^%-?%d+$') then
  return nil, {err = 'WRONGTYPE the value under this key is not the count of a latch'}
end
return math.max(tonumber(count), 0)
