--!df flags=allow-undeclared-keys
-- Takes several locks, or none of them: by the scripts of their kinds, each of which first only looks.
-- KEYS those of the members' scripts, one after the other
-- ARGV for each member: the name of its script; how many keys and arguments that has; the arguments, the lease second
-- Replies {0, then for each member 1, and its token or 0} all are granted; {i, what the i-th member's script says, made four
-- values long} that one is busy, or a nested level whose hold is gone, and none is taken; {-1, error} a part was taken
-- before that error.
-- Shapes 0*1i niisi -s
-- Atomic because nobody may see a part of them taken. All keys in one hash slot.
local take = {
  ['plain/acquire'] = include 'plain/acquire',
  ['fenced/acquire'] = include 'fenced/acquire',
  ['rw/read_acquire'] = include 'rw/read_acquire',
  ['rw/write_acquire'] = include 'rw/write_acquire',
}
local members, k, a = {}, 0, 0
while a < #ARGV do
  local n_keys, n_args = tonumber(ARGV[a + 2]), tonumber(ARGV[a + 3])
  members[#members + 1] = {
    take = take[ARGV[a + 1]],
    keys = {unpack(KEYS, k + 1, k + n_keys)},
    args = {unpack(ARGV, a + 4, a + 3 + n_args)},
  }
  k, a = k + n_keys, a + 3 + n_args
end
for i, member in ipairs(members) do
  local lease = member.args[2]
  member.args[2] = '0'
  local said = member.take(member.keys, member.args)
  member.args[2] = lease
  if said.err then
    return said
  end
  if said[1] ~= 1 then
    return {i, said[1], said[2], said[3] or '', said[4] or 0}
  end
end
local reply = {0}
for _, member in ipairs(members) do
  local ran, said = pcall(member.take, member.keys, member.args)
  local err = not ran and said or said.err
  if err then
    local text = type(err) == 'table' and err.err or err
    if #reply == 1 then
      return {err = text} -- by the first write, or undone by its script: nothing is taken
    end
    return {-1, text} -- the client gives back what came before
  end
  reply[#reply + 1] = 1
  reply[#reply + 1] = said[2] or 0
end
return reply
