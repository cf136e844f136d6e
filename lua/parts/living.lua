-- Says how long a readers' lock lives: as long as the longest of its holds.
-- Takes the lock's hash; what the keys of readers' levels begin with; the hash's PTTL; an owner that does not count, or none;
-- 'asking' if the slot is on its way here
-- Returns the longest PTTL, -1 where that is not known, -2 if none lives; the owners that are dead, 16 at most; one that
-- lives, or ''.
local holds, longest = include 'parts/holds', include 'parts/longest'
local key, levels, ttl, without, asking = ...
local left, dead, alive = -2, {}, ''
for field, n in holds(key) do
  local its = ttl -- a writer, and what has too many levels, is not ours to judge: it lives as long as the hash
  if field == without then
    its = -2
  elseif n <= 1000 and string.sub(field, -6) ~= ':write' then
    its = longest(levels, field, n, false, asking)
  end
  if its ~= -2 then
    alive = field
  elseif #dead < 16 and field ~= without then
    dead[#dead + 1] = field
  end
  left = (left == -1 or its == -1) and -1 or math.max(left, its)
end
return left, dead, alive
