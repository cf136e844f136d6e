-- Says which permit of an owner is the one with this number.
-- Takes what the owner's permits begin with; the number, from 0 on
-- Returns the permit.
local ids, i = ...
return ids .. string.char(math.floor(i / 256), i % 256)
