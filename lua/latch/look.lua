-- Says whether a latch is open.
-- KEYS[1] the count; KEYS[2] the record: see set.lua
-- ARGV none
-- Replies {1, 0} open; {0, how many are missing} closed.
-- Shapes 1i 0i
-- One hash slot by the name's tag. A missing latch is open. A latch with a count of 0 or less is open, too.
-- The script declares the second key so that the server refuses it while the slot is being moved and a key is missing: the
-- latch may then be on the other server, and closed.
local missing_of = include 'parts/missing'
local missing, wrong = missing_of(KEYS[1])
return wrong or {missing > 0 and 0 or 1, missing}
