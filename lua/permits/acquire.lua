-- Takes permits of a semaphore: makes the owner's permits so many, and never adds. It takes all that are missing, or none.
-- KEYS[1] the number of free permits; KEYS[2] the permits that are out, by their expiry in ms
-- ARGV[1] what the owner's permits begin with, 14 bytes; ARGV[2] lease in ms, 0 only looks; ARGV[3] how many permits to make
-- so; ARGV[4] how many of these its earlier levels have; ARGV[5] how many permits there are if the server has no number;
-- ARGV[6] 1 if the permits end with the number, else 0; ARGV[7] PUBLISH, SPUBLISH or BOTH; ARGV[8] the channel
-- Replies {1, how many are free now} granted; {0, ms until the next one expires or -1, '', how many are free} busy; {-1, 0}
-- the owner's earlier levels are gone.
-- Shapes 1i 0isi -i
-- Atomic because the look, the number and the permits must be one. One hash slot by the name's tag.
-- A request that is sent again finds the permits of its first copy. All permits of one owner have one lease. Expired permits
-- are free. The script removes them last: while the slot is being moved, it cannot read or create a set that it has emptied.
local number, permits, ids = KEYS[1], KEYS[2], ARGV[1]
local lease, units, held, total = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local free, over = redis.call('get', number), redis.call('zrangebyscore', permits, '-inf', now)
local first = redis.call('zrange', permits, #over, #over, 'WITHSCORES')[2]
local new = free and #over or total
if not free then -- what is out already counts
  free = total - redis.call('zcard', permits)
  redis.call('set', number, string.format('%.0f', free))
elseif not tonumber(free) then
  return {err = 'WRONGTYPE the value under this key is no number of permits'}
end
free = free + #over

local permit = include 'parts/permit'
local is_over, own, is_own, missing, ends, gone = {}, {}, {}, 0, now + lease, false
for _, id in ipairs(over) do
  is_over[id] = true
end
for i = 0, units - 1 do
  local id = permit(ids, i)
  local score = not is_over[id] and redis.call('zscore', permits, id)
  own[i + 1], is_own[id] = id, true
  ends = math.max(ends, tonumber(score or 0))
  missing = missing + (score and 0 or 1)
  gone = gone or not score and i < held
end
local grants = not gone and missing <= free and lease > 0
local change = #over - (grants and missing or 0)
if change ~= 0 then
  redis.call('incrby', number, change)
end
for _, id in ipairs(grants and own or {}) do
  redis.call('zadd', permits, string.format('%.0f', ends), id)
end
for _, id in ipairs(over) do
  if not grants or not is_own[id] then
    redis.call('zrem', permits, id)
  end
end
local ttl = grants and ARGV[6] == '1' and redis.call('pttl', number) or 0
if ttl > 0 then -- a number with an end takes its permits along
  redis.call('pexpire', permits, ttl)
end
local left = free - (grants and missing or 0)
if new > 0 and left > 0 then
  local announce = include 'parts/announce'
  announce(ARGV[7], ARGV[8], string.format('%.0f', left))
end
if gone then
  return {-1, 0}
elseif missing > free then
  return {0, first and math.max(tonumber(first) - now, 0) or -1, '', free}
end
return {1, left}
