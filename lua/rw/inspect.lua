--!df flags=allow-undeclared-keys
-- Says who holds a read/write lock, on one side or on either; of a lock without sides, who holds it.
-- KEYS[1] the lock's hash
-- ARGV[1] 'read', 'write' or 'any': whose holders; ARGV[2] the UUID of the client that asks, or ''; ARGV[3] what the keys of
-- its readers' levels begin with; ARGV[4] 'asking' if the slot is on its way here
-- Replies {PTTL, number of holders, one holder, its count, mode, digest, fields of the client that asks...}; '' where there
-- is none, or the lock has no sides. The digest is of all fields and the mode: who would open the lock by force says it again.
-- Shapes iissss.s
-- Atomic so that the parts belong together. One hash slot by the name's tag.
-- A reader none of whose levels lives does not count.
local key, side = KEYS[1], ARGV[1]
local ttl, mode = redis.call('pttl', key), redis.call('hget', key, 'mode')
local size = redis.call('hlen', key)
if size == 0 then
  return {ttl, 0, '', '', '', ''}
end
if mode ~= 'read' and mode ~= 'write' then
  local writer_of = include 'parts/writer'
  local first, wrong = writer_of(key, mode, size)
  return wrong or {ttl, 1, first, string.sub(redis.call('hget', key, first), 1, 32), '', redis.sha1hex('\n' .. first)}
end
if size > 10000 then
  return {err = 'WRONGTYPE the hash under this key is no lock'}
end
local holds, longest = include 'parts/holds', include 'parts/longest'
local holders, first, count, names, own = 0, '', '', {'mode'}, {}
for field, n, text in holds(key) do
  local writer = string.sub(field, -6) == ':write'
  local lives = writer or n > 1000 or longest(ARGV[3], field, n, true, ARGV[4]) ~= -2
  if lives and (side == 'any' or writer == (side == 'write')) then
    holders = holders + 1
    if first == '' or writer then
      first, count = field, text
    end
  end
  -- what opening that side by force takes from the client that asks: a writer's own reads go with it
  if (side == 'write' or not writer) and string.sub(field, 1, #ARGV[2] + 1) == ARGV[2] .. ':' and #own < 1000 then
    own[#own + 1] = field
  end
  names[#names + 1] = field
end
if mode == 'write' and side ~= 'read' and holders == 0 then
  holders = 1 -- nobody's, and taken all the same
end
table.sort(names)
return {ttl, holders, string.sub(first, 1, 128), string.sub(count, 1, 32), mode, redis.sha1hex(mode .. '\n' .. table.concat(names, '\n')), unpack(own)}
