-- Says who holds a lock that is not the readers': a writer, or the owner of a lock without sides.
-- Takes the lock's hash; its mode, false without sides; the number of its fields, not 0
-- Returns the holder, '' where a writer's name is not known; or nil and an error: the hash is no lock.
-- A writer's hash has its own reads too; a lock without sides has one field. What else is under the key may be large.
local key, mode, size = ...
local writing, holder = mode == 'write', ''
local fields = size <= (writing and 16 or 1) and redis.call('hkeys', key) or {}
for _, field in ipairs(fields) do
  if not writing or string.sub(field, -6) == ':write' then
    holder = field
  end
end
if #fields == 0 or #holder > 128 or not (writing or string.find(holder, ':%d')) then
  return nil, {err = 'WRONGTYPE the hash under this key is no lock'}
end
return holder
