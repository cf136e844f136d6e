-- Says how many permits of a semaphore are out, and how many are free.
-- KEYS[1] the number of free permits; KEYS[2] the permits that are out, by their expiry in ms
-- ARGV[1] what the permits of the client that asks begin with, 9 bytes; ARGV[2] its UUID
-- Replies {ms until the next permit expires, -1 never, -2 none is out; how many are out; the owner or digits of the next one;
-- '1' if one is out, else ''; 0; how many are free; 1 if the server has that number, else 0; digest of all that are out;
-- the owners "uuid:number" of the permits of the client that asks...}.
-- Shapes iissiiis.s
-- Atomic so that the parts belong together. One hash slot by the name's tag.
-- An expired permit counts as free.
local number, permits, own = KEYS[1], KEYS[2], {}
local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local free, one = redis.call('get', number), redis.call('zrange', permits, '0', '0')[1]
if one and #one ~= 16 then
  return {err = 'WRONGTYPE the members of this set are no permits'}
end
local all = redis.call('zrange', permits, '0', '-1', 'WITHSCORES')
if free and not tonumber(free) then
  return {err = 'WRONGTYPE the value under this key is no number of permits'}
end

local function text_of(id)
  if id:sub(1, 9) ~= ARGV[1] or #id ~= 16 then
    return (id:gsub('.', function(char) return string.format('%02x', char:byte()) end):sub(1, 64))
  end
  local a, b, c, d, e = id:byte(10, 14)
  own[#own + 1] = string.format('%s:%.0f', ARGV[2], (((a * 256 + b) * 256 + c) * 256 + d) * 256 + e)
  return own[#own]
end

local which_are_out = include 'parts/out'
local out, digest = which_are_out(all, now)
local first, left = '', -2
if #out > 0 then
  local ends = tonumber(all[#all - 2 * #out + 2])
  first, left = text_of(out[1]), ends >= 922337203685477 and -1 or ends - now
end
for i = 2, math.min(#out, 1000) do
  text_of(out[i])
end
return {left, #out, first, #out > 0 and '1' or '', 0, (tonumber(free) or 0) + #all / 2 - #out, free and 1 or 0, digest,
  unpack(own)}
