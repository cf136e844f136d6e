/* SPDX-License-Identifier: Apache-2.0 */
#include "rw/peer.h"

/* What all of them need. */
#define WORDS                                                                                      \
    "local key, owner, lease = KEYS[1], ARGV[1], tonumber(ARGV[2])\n"                              \
    "local mode = redis.call('hget', key, 'mode')\n"                                               \
    "local function level(whose, n) return KEYS[2] .. whose .. ':rwlock_timeout:' .. n end\n"

const char peer_read[] =
    WORDS "if not mode then\n"
          "  redis.call('hset', key, 'mode', 'read', owner, 1)\n"
          "  redis.call('set', level(owner, 1), 1, 'px', lease)\n"
          "  redis.call('pexpire', key, lease)\n"
          "  return nil\n"
          "end\n"
          "if mode == 'read' or redis.call('hexists', key, owner .. ':write') == 1 then\n"
          "  local n = redis.call('hincrby', key, owner, 1)\n"
          "  redis.call('set', level(owner, n), 1, 'px', lease)\n"
          "  redis.call('pexpire', key, math.max(redis.call('pttl', key), lease))\n"
          "  return nil\n"
          "end\n"
          "return redis.call('pttl', key)\n";

const char peer_read_release[] =
    WORDS "if not mode then\n"
          "  redis.call('publish', KEYS[3], '0')\n"
          "  return nil\n"
          "end\n"
          "if redis.call('hexists', key, owner) == 0 then return nil end\n"
          "local n = redis.call('hincrby', key, owner, -1)\n"
          "if n == 0 then redis.call('hdel', key, owner) end\n"
          "redis.call('del', level(owner, n + 1))\n"
          "if redis.call('hlen', key) > 1 then\n"
          "  local longest = -3\n"
          "  for _, field in ipairs(redis.call('hkeys', key)) do\n"
          "    local count = tonumber(redis.call('hget', key, field))\n"
          "    for i = count or 0, 1, -1 do\n"
          "      longest = math.max(longest, redis.call('pttl', level(field, i)))\n"
          "    end\n"
          "  end\n"
          "  if longest > 0 then\n"
          "    redis.call('pexpire', key, longest)\n"
          "    return 0\n"
          "  end\n"
          "  if mode == 'write' then return 0 end\n"
          "end\n"
          "redis.call('del', key)\n"
          "redis.call('publish', KEYS[3], '0')\n"
          "return 1\n";

const char peer_write[] =
    WORDS "local mine = owner .. ':write'\n"
          "if not mode then\n"
          "  redis.call('hset', key, 'mode', 'write', mine, 1)\n"
          "  redis.call('pexpire', key, lease)\n"
          "  return nil\n"
          "end\n"
          "if mode == 'write' and redis.call('hexists', key, mine) == 1 then\n"
          "  redis.call('hincrby', key, mine, 1)\n"
          "  redis.call('pexpire', key, redis.call('pttl', key) + lease)\n"
          "  return nil\n"
          "end\n"
          "return redis.call('pttl', key)\n";

const char peer_write_release[] =
    WORDS "local mine = owner .. ':write'\n"
          "if not mode then\n"
          "  redis.call('publish', KEYS[3], '1')\n"
          "  return nil\n"
          "end\n"
          "if mode == 'read' or redis.call('hexists', key, mine) == 0 then return nil end\n"
          "if redis.call('hincrby', key, mine, -1) > 0 then\n"
          "  redis.call('pexpire', key, lease)\n"
          "  return 0\n"
          "end\n"
          "redis.call('hdel', key, mine)\n"
          "if redis.call('hlen', key) == 1 then\n"
          "  redis.call('del', key)\n"
          "  redis.call('publish', KEYS[3], '1')\n"
          "else\n"
          "  redis.call('hset', key, 'mode', 'read')\n"
          "end\n"
          "return 1\n";

const char peer_read_renew[] =
    WORDS "local count = tonumber(redis.call('hget', key, owner))\n"
          "if not count then return 0 end\n"
          "for i = count, 1, -1 do redis.call('pexpire', level(owner, i), lease) end\n"
          "redis.call('pexpire', key, lease)\n"
          "return 1\n";

const char peer_write_renew[] =
    WORDS "if redis.call('hexists', key, owner .. ':write') == 0 then return 0 end\n"
          "redis.call('pexpire', key, lease)\n"
          "return 1\n";
