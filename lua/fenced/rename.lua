-- Gives a hold of a fenced lock to another owner, like plain/rename, with a new token.
-- KEYS[1] the lock's hash; KEYS[2] the token
-- ARGV[1] owner "uuid:number"; ARGV[2] the other owner; ARGV[3] lease in ms; ARGV[4] PUBLISH, SPUBLISH or BOTH; ARGV[5]
-- channel; ARGV[6] the message
-- Replies {1, token} done, now or by an earlier copy; {-1, 1 or 0} the owner does not hold it (1: another does).
-- Shapes 1i -i
-- Atomic because a token belongs to one owner's hold. Keys and channel in one hash slot by the name's tag.
-- The token grows before the owner changes: the other order could leave a hold without a token of its own. A copy gives
-- the token of the first one, since nobody else can have got one meanwhile.
local key, from, to = KEYS[1], ARGV[1], ARGV[2]
local token = tonumber(redis.call('get', KEYS[2]) or 0) or 0
if redis.call('hexists', key, to) == 0 and redis.call('hexists', key, from) == 1 then
  local now = redis.call('time')
  token = math.max(token + 1, tonumber(now[1]) * 1000000 + tonumber(now[2]))
  redis.call('pexpire', key, math.max(redis.call('pttl', key), 1)) -- a write that a full server still allows
  redis.call('set', KEYS[2], string.format('%.0f', token))
end
local rename = include 'plain/rename'
local reply = rename(KEYS, ARGV)
reply[2] = reply[2] or token
return reply
