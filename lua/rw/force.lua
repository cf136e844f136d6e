--!df flags=allow-undeclared-keys
-- Opens one side of a read/write lock, if exactly those that were seen still hold it. The write side takes the writer's
-- own reads with it; the read side of a writer's lock ends these alone.
-- KEYS[1] the lock's hash
-- ARGV[1] 'read' or 'write'; ARGV[2] the digest of what was seen; ARGV[3] PUBLISH, SPUBLISH or BOTH; ARGV[4] channel;
-- ARGV[5] what the keys of its readers' levels begin with
-- Replies {1, receivers} opened (receivers -1: the announcement was refused); {-1, 1 or 0} others hold it now (0: nobody).
-- Shapes 1i -i
-- Atomic because a lock that changed hands must not be opened. One hash slot by the name's tag.
local key, side = KEYS[1], ARGV[1]
local mode = redis.call('hget', key, 'mode')
if redis.call('hlen', key) > 10000 then
  return {err = 'WRONGTYPE the hash under this key is no lock'}
end
local holds, announce, names = include 'parts/holds', include 'parts/announce', redis.call('hkeys', key)
table.sort(names)
if ARGV[2] ~= redis.sha1hex((mode or '') .. '\n' .. table.concat(names, '\n')) then
  return {-1, redis.call('exists', key)}
end
if side == 'write' and mode == 'read' then
  return {-1, 1}
end
local all = side == mode or mode ~= 'write' -- of the two sides, or what has none
local opened, receivers = {}, 0
for field, n in holds(key) do
  if string.sub(field, -6) ~= ':write' then
    opened[#opened + 1] = {field, n < math.huge and math.min(n, 1000) or 0}
  end
end
if all then
  redis.call('del', key)
  receivers = announce(ARGV[3], ARGV[4], side == 'write' and '1' or '0')
end
for _, hold in ipairs(opened) do
  if not all then
    redis.call('hdel', key, hold[1])
  end
  for i = 1, hold[2] do
    redis.pcall('del', ARGV[5] .. hold[1] .. ':rwlock_timeout:' .. i)
  end
end
return {1, receivers}
