-- Says how many permits of a semaphore are out, and how many are free.
-- KEYS[1] the number of free permits; KEYS[2] the permits, by the times in ms at which they end
-- ARGV[1] what the permits of the client that asks begin with, 9 bytes; ARGV[2] its UUID
-- Replies {ms until the next one ends, -1 never, -2 none is out; number of permits that are out; the next one's owner or digits;
-- '1', or '' where none is out; 0; number of free permits; 1 if the server has that number, else 0; digest of all that are out;
-- the owners "uuid:number" of the permits of the client that asks...}.
-- Shapes iissiiis.s
-- Atomic so that the parts belong together. One hash slot by the name's tag.
-- A permit whose lease is over counts as free.
local number, permits, own = KEYS[1], KEYS[2], {}
local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local free, out = redis.call('get', number), redis.call('zrange', permits, '0', '-1', 'WITHSCORES')
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

local names, first, left = {}, '', -2
for i = 1, #out, 2 do
  local ends, text = tonumber(out[i + 1]), #names < 1000 and text_of(out[i]) or ''
  if ends > now then
    names[#names + 1] = out[i]
  end
  if #names == 1 and left == -2 then
    first, left = text, ends >= 922337203685477 and -1 or ends - now
  end
end
local count = #names
table.sort(names)
return {left, count, first, count > 0 and '1' or '', 0, (tonumber(free) or 0) + #out / 2 - count, free and 1 or 0,
  redis.sha1hex(table.concat(names)), unpack(own)}
