-- Tells the client of a call in a lock's queue something about that call.
-- Takes PUBLISH, SPUBLISH or BOTH; the lock's channel; the entry; a word; what follows the call's number
-- Returns as parts/announce does.
-- The client hears this channel:uuid.
local way, channel, entry, word, rest = ...
local announce = include 'parts/announce'
return announce(way, channel .. ':' .. entry:sub(3, 38), word .. ' ' .. entry:sub(40) .. ' ' .. rest)
