-- Announces a release, or asks one who waits: on sharded channels, on plain ones, or on both.
-- Takes PUBLISH, SPUBLISH or BOTH; the channel; the message
-- Returns the number of receivers, who count twice if they hear both; -1: the announcement was refused, or a part of it.
local way, channel, message = ...
local heard = redis.pcall(way == 'BOTH' and 'SPUBLISH' or way, channel, message)
local receivers = type(heard) == 'number' and heard or -1
if way == 'BOTH' then
  heard = redis.pcall('PUBLISH', channel, message)
  receivers = receivers >= 0 and type(heard) == 'number' and receivers + heard or -1
end
return receivers
