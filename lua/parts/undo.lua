-- Undoes a new hold if the server refused a write that belongs to it: a lock without an end would be worse than none.
-- Takes the server's answer to that write; the lock's hash; the fields that the hold has in it
-- Returns the refusal; nothing if there was none.
local answer, key = ...
if type(answer) == 'table' and answer.err then
  redis.pcall('hdel', key, select(3, ...))
  return answer
end
