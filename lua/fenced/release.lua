--!df flags=allow-undeclared-keys
-- Gives up levels of a fenced lock, as queue/release does. If it gives the lock to the next in its queue, it draws that one's
-- token.
-- KEYS[1] the lock's hash
-- ARGV as queue/release has them
-- Replies {1, receivers, 1 or 0} done (parts/give); {-1, 1 or 0} not held (1: by another).
-- Shapes 1i 1ii -i
-- Atomic because a token belongs to one owner's hold. Keys and channels in one hash slot by the name's tag.
ARGV.has_tokens = true
local release = include 'queue/release'
return release(KEYS, ARGV)
