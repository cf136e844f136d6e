-- Extends the leases of a batch of holds of permits.
-- KEYS[i] the permits that the i-th hold's are among
-- ARGV[4i-3] what its permits begin with, 14 bytes; ARGV[4i-2] its lease in ms; ARGV[4i-1] how many it has; ARGV[4i] how many
-- it may have: a call may have got more in front of this script; maybe one more, see src/lock/ops.h
-- Replies {seconds, microseconds of the server's clock, then for each hold 1 extended, 0 gone}.
-- Shapes ii*i
-- Atomic because only a hold that lives may be extended, and all of it. All keys in one hash slot.
-- A hold is gone if one of its permits is missing or has expired: anybody may take an expired permit.
local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local permit = include 'parts/permit'
local reply = {tonumber(time[1]), tonumber(time[2])}
for k, permits in ipairs(KEYS) do
  local ids, ends, units, own, lives = ARGV[4 * k - 3], now + ARGV[4 * k - 2], tonumber(ARGV[4 * k - 1]), {}, 1
  for i = 0, ARGV[4 * k] - 1 do
    local id = permit(ids, i)
    local score = redis.pcall('zscore', permits, id)
    score = type(score) == 'string' and tonumber(score) or 0 -- of another type: it is gone
    if score > now then
      own[#own + 1] = id
      ends = math.max(ends, score)
    elseif i < units then
      lives = 0
    else
      break
    end
  end
  for _, id in ipairs(lives == 1 and own or {}) do
    redis.call('zadd', permits, string.format('%.0f', ends), id)
  end
  reply[k + 2] = lives
end
return reply
