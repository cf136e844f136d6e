-- Reads the value of a string key, for setnx locks.
-- Takes the key; the answer of redis.pcall('get', key)
-- Returns the value, cut to 128 bytes. If the key has another type, returns the type in parentheses. If there is no key,
-- returns nil; and if the server refused to read it, nil and the error.
local key, held = ...
if type(held) ~= 'table' then
  return held and string.sub(held, 1, 128) or nil
end
if string.find(held.err, 'WRONGTYPE', 1, true) then
  return '(' .. (redis.pcall('type', key).ok or 'another type') .. ')' -- a user may lack the right to ask
end
return nil, held
