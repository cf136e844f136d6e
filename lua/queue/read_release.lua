--!df flags=allow-undeclared-keys
-- Gives up levels of the read side of a read/write lock, as rw/read_release does. The last reader gives the lock to the first
-- writer in its queue.
-- KEYS as rw/read_release has them
-- ARGV as rw/read_release has them; of the last level ARGV[3] may be 1: it is a turn of others
-- Replies as rw/read_release does; {2, receivers, 0} if it is a turn of others (parts/give)
-- Shapes 1ii 2ii -i
-- Atomic because nobody may take the lock between its release and the next in the queue. One hash slot: keys, and the
-- channels by their tag.
ARGV.free = include 'parts/give_write'
local release = include 'rw/read_release'
return release(KEYS, ARGV)
