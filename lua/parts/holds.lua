-- Goes through the holds of a read/write lock: for field, levels, count in holds(key) do … end
-- Takes the lock's hash
-- Returns an iterator over each field but the mode, the number of its levels (math.huge if its count is no number), and
-- the count as it stands in the hash. It sees the hash as it was when the loop began.
local fields, f = redis.call('hgetall', ...), -1
return function()
  f = f + (fields[f + 2] == 'mode' and 4 or 2)
  local count = fields[f + 1]
  return fields[f], count and not count:find('%D') and tonumber(count) or math.huge, count
end
