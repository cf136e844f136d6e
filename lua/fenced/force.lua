--!df flags=allow-undeclared-keys
-- Opens a fenced lock, as queue/force does. If it gives the lock to the next in its queue, it draws that one's token.
-- KEYS[1] the lock's hash
-- ARGV as queue/force has them
-- Replies {1, receivers, 1 or 0} opened (parts/give); {-1, 1 or 0} not held by that one (1: by another).
-- Shapes 1ii -i
-- Atomic because a token belongs to one owner's hold. Keys and channels in one hash slot by the name's tag.
ARGV.has_tokens = true
local force = include 'queue/force'
return force(KEYS, ARGV)
