-- Sets how many permits a semaphore has, or adds some. Permits that are out stay out, so fewer than 0 may be free.
-- KEYS[1] the number of free permits; KEYS[2] the permits that are out, by their expiry in ms
-- ARGV[1] how many; ARGV[2] SET or ADD; ARGV[3] PUBLISH, SPUBLISH or BOTH; ARGV[4] the channel
-- Replies {1, how many are free now}.
-- Shapes 1i
-- Atomic because the number and the permits must be one. One hash slot by the name's tag.
-- An expired permit stays in the set until somebody removes it. If there is no number, no permit is free.
local number, permits, change = KEYS[1], KEYS[2], tonumber(ARGV[1])
local free = redis.call('get', number)
if free and not tonumber(free) then
  return {err = 'WRONGTYPE the value under this key is no number of permits'}
end
if ARGV[2] == 'SET' then
  change = change - redis.call('zcard', permits) - tonumber(free or 0)
end
if free and change == 0 then
  return {1, tonumber(free)}
end
if tonumber(free or 0) + change > 2147483647 then
  return {err = 'ERR a semaphore has at most 2147483647 permits'}
end
free = redis.call('incrby', number, string.format('%.0f', change))
if free > 0 and change > 0 then
  local announce = include 'parts/announce'
  announce(ARGV[3], ARGV[4], string.format('%.0f', free))
end
return {1, free}
