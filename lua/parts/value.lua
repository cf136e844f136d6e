-- Says what a string key holds, to a kind whose locks are such keys.
-- Takes the key; the answer of redis.pcall('get', key)
-- Returns the value, at most 128 bytes of it; the type in parentheses, if the key is of another one; nil where it is free;
-- or nil and an error.
local key, held = ...
if type(held) ~= 'table' then
  return held and string.sub(held, 1, 128) or nil
end
if string.find(held.err, 'WRONGTYPE', 1, true) then
  return '(' .. (redis.pcall('type', key).ok or 'another type') .. ')' -- a user may lack the right to ask
end
return nil, held
