-- Says how long a read hold lives: as long as the longest of its levels.
-- Takes what the keys of readers' levels begin with; the owner; the number of its levels; true if any level will do
-- Returns the longest PTTL, or that of the first level that is found where any will do; -2: none lives.
local levels, owner, n, any = ...
local longest = -2
for i = n, 1, -1 do
  local left = redis.call('pttl', levels .. owner .. ':rwlock_timeout:' .. i)
  if left > longest then
    longest = left
    if any then
      break
    end
  end
end
return longest
