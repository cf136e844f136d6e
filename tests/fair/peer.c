/* SPDX-License-Identifier: Apache-2.0 */
#include "fair/peer.h"

/* The head goes if its time has come; nobody else's is looked at. */
#define PURGE                                                                                      \
    "local function purge(now)\n"                                                                  \
    "  local head = redis.call('lindex', KEYS[2], 0)\n"                                            \
    "  while head do\n"                                                                            \
    "    local score = redis.call('zscore', KEYS[3], head)\n"                                      \
    "    if not score or tonumber(score) > now then return end\n"                                  \
    "    redis.call('zrem', KEYS[3], head)\n"                                                      \
    "    redis.call('lpop', KEYS[2])\n"                                                            \
    "    head = redis.call('lindex', KEYS[2], 0)\n"                                                \
    "  end\n"                                                                                      \
    "end\n"

/* The queue is empty or begins with me; or I hold it already. Everybody's score falls by
 * my wait. */
#define TAKE                                                                                       \
    "local function take(lease, owner, wait)\n"                                                    \
    "  local head = redis.call('lindex', KEYS[2], 0)\n"                                            \
    "  if redis.call('exists', KEYS[1]) == 0 and (not head or head == owner) then\n"               \
    "    redis.call('lpop', KEYS[2])\n"                                                            \
    "    redis.call('zrem', KEYS[3], owner)\n"                                                     \
    "    for _, one in ipairs(redis.call('zrange', KEYS[3], 0, -1)) do\n"                          \
    "      redis.call('zincrby', KEYS[3], -wait, one)\n"                                           \
    "    end\n"                                                                                    \
    "  elseif redis.call('hexists', KEYS[1], owner) == 0 then\n"                                   \
    "    return false\n"                                                                           \
    "  end\n"                                                                                      \
    "  redis.call('hincrby', KEYS[1], owner, 1)\n"                                                 \
    "  redis.call('pexpire', KEYS[1], lease)\n"                                                    \
    "  return true\n"                                                                              \
    "end\n"

const char peer_acquire[] =
    PURGE TAKE "local owner, wait, now = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])\n"
               "purge(now)\n"
               "if take(ARGV[1], owner, wait) then return nil end\n"
               "local ttl = redis.call('pttl', KEYS[1])\n"
               "if redis.call('zscore', KEYS[3], owner) then return math.max(0, ttl) end\n"
               "local last = redis.call('lindex', KEYS[2], -1)\n"
               "local score = last and last ~= owner and redis.call('zscore', KEYS[3], last)\n"
               "if score then ttl = tonumber(score) - now end\n"
               "if redis.call('zadd', KEYS[3], ttl + wait + now, owner) == 1 then\n"
               "  redis.call('rpush', KEYS[2], owner)\n"
               "end\n"
               "return ttl\n";

const char peer_try[] =
    PURGE TAKE "purge(tonumber(ARGV[4]))\n"
               "if take(ARGV[1], ARGV[2], tonumber(ARGV[3])) then return nil end\n"
               "return 1\n";

const char peer_give_up[] = "local behind = false\n"
                            "for _, one in ipairs(redis.call('lrange', KEYS[2], 0, -1)) do\n"
                            "  if behind then redis.call('zincrby', KEYS[3], -ARGV[2], one) end\n"
                            "  behind = behind or one == ARGV[1]\n"
                            "end\n"
                            "redis.call('zrem', KEYS[3], ARGV[1])\n"
                            "return redis.call('lrem', KEYS[2], 0, ARGV[1])\n";

const char peer_release[] =
    PURGE "local owner = ARGV[1]\n"
          "purge(tonumber(ARGV[3]))\n"
          "local function announce()\n"
          "  local head = redis.call('lindex', KEYS[2], 0)\n"
          "  if head then redis.call('publish', ARGV[4] .. ':' .. head, '0') end\n"
          "  return 1\n"
          "end\n"
          "if redis.call('exists', KEYS[1]) == 0 then return announce() end\n"
          "if redis.call('hexists', KEYS[1], owner) == 0 then return nil end\n"
          "if redis.call('hincrby', KEYS[1], owner, -1) > 0 then\n"
          "  redis.call('pexpire', KEYS[1], ARGV[2])\n"
          "  return 0\n"
          "end\n"
          "redis.call('del', KEYS[1])\n"
          "return announce()\n";
