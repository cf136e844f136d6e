-- Says which permits of a semaphore are out and have not expired.
-- Takes all permits with their expiry in ms, as ZRANGE replies; the time now
-- Returns these permits in the same order; their digest, which does not depend on the order.
local all, now = ...
local out, sorted = {}, {}
for i = 1, #all, 2 do
  if tonumber(all[i + 1]) > now then
    out[#out + 1], sorted[#sorted + 1] = all[i], all[i]
  end
end
table.sort(sorted)
return out, redis.sha1hex(table.concat(sorted))
