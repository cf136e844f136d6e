-- Says how long a read hold lives: as long as the longest of its levels.
-- Takes what the keys of readers' levels begin with; the owner; the number of its levels; true if any level will do;
-- 'asking' if the slot is on its way here
-- Returns the longest PTTL, or that of the first level that is found where any will do; -2: none lives. What cannot be
-- seen here, since the slot is being moved, may live: that is -1, a level without an end.
local levels, owner, n, any, asking = ...
local longest, unseen = -2, false
for i = n, 1, -1 do
  local left = redis.pcall('pttl', levels .. owner .. ':rwlock_timeout:' .. i)
  if type(left) ~= 'number' or left == -2 and asking == 'asking' then
    unseen = true
  elseif left > longest then
    longest = left
    if any then
      return left
    end
  end
end
return unseen and -1 or longest
