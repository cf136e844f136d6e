-- Frees a read/write lock that nobody holds any more, and announces that.
-- Takes the lock's hash; PUBLISH, SPUBLISH or BOTH; the channel; the message
-- Returns 1; how many received the announcement, -1 if it was refused.
local key, way, channel, message = ...
redis.call('del', key)
local announce = include 'parts/announce'
return 1, announce(way, channel, message)
