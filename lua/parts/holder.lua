-- Says who holds a lock, to a kind whose locks have one hash.
-- Takes the lock's hash; the number of its fields, not 0
-- Returns the holder, '' where it is not known; or nil and an error: the hash is no lock.
-- A lock has one field, its owner, or a mode besides. What else is under the key may be large.
-- An owner's field is "uuid:number": its colon stands behind 36 characters.
local key, size = ...
local only = size == 1 and redis.call('hkeys', key)[1]
if only and only:byte(37) == 58 and #only <= 128 then
  return only
end
local holder = ''
for _, field in ipairs(size <= 16 and redis.call('hkeys', key) or {}) do
  holder = #field <= 128 and string.find(field, ':%d') and field or holder
end
if size > 1 or holder == '' then
  local mode = redis.call('hget', key, 'mode')
  if mode ~= 'read' and mode ~= 'write' then
    return nil, {err = 'WRONGTYPE the hash under this key is no lock'}
  end
end
return holder
