-- Gives a read/write lock that nobody holds any more to the first writer in its queue, as parts/give does.
-- Takes the lock's hash; PUBLISH, SPUBLISH or BOTH; the channel; the message that announces the free lock; '1' if it is a turn
-- of others
-- Returns as parts/give does.
local key, way, channel, message, turn = ...
local front = redis.pcall('zrange', 'rlock_wait' .. channel:sub(16), '0', '1') -- behind 'redisson_rwlock'
if way ~= 'BOTH' and not front[1] then -- no writer stands there, as in most releases
  redis.call('del', key)
  local heard = redis.pcall(way, channel, message)
  return type(heard) == 'number' and heard > 0 and 2 or 1, type(heard) == 'number' and heard or -1
end
local give, fields = include 'parts/give', {}
for _, field in ipairs(redis.call('hkeys', key)) do
  fields[#fields + 1] = field ~= 'mode' and field or nil
end
return give(key, fields, way, channel, turn == '1', false, front, message)
