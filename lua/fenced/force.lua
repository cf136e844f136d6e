--!df flags=allow-undeclared-keys
-- Opens a fenced lock, as queue/force does. If it gives the lock to the next in its queue, it draws that one's token.
-- KEYS[1] the lock's hash
-- ARGV as queue/force has them
-- Replies as queue/force does
-- Shapes 1i 2i 3i -i
-- Atomic because a token belongs to one owner's hold. Keys and channels in one hash slot by the name's tag.
ARGV.has_tokens = true
local force = include 'queue/force'
return force(KEYS, ARGV)
