/* SPDX-License-Identifier: Apache-2.0 */
#include "fair/peer.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const peer_verbs[PEER_VERBS] = {"acquire", "try",   "give_up",
                                            "release", "renew", "force"};

#define HEAD                                                                                       \
    "local lock, queue, scores, channel = KEYS[1], KEYS[2], KEYS[3], KEYS[4]\n"                    \
    "local owner, lease, wait, now = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])\n"

/* The head goes if its time has come; nobody else's is looked at. */
#define PURGE                                                                                      \
    "local function purge()\n"                                                                     \
    "  local head = redis.call('lindex', queue, 0)\n"                                              \
    "  while head do\n"                                                                            \
    "    local score = redis.call('zscore', scores, head)\n"                                       \
    "    if old and not score then error('no score') end\n"                                        \
    "    if not score or tonumber(score) > now then return end\n"                                  \
    "    redis.call('zrem', scores, head)\n"                                                       \
    "    redis.call('lpop', queue)\n"                                                              \
    "    head = redis.call('lindex', queue, 0)\n"                                                  \
    "  end\n"                                                                                      \
    "end\n"

/* The queue is empty or begins with me; or I hold it already. Everybody's score falls by
 * my wait. */
#define TAKE                                                                                       \
    "local function take()\n"                                                                      \
    "  local head = redis.call('lindex', queue, 0)\n"                                              \
    "  if redis.call('exists', lock) == 0 and (not head or head == owner) then\n"                  \
    "    redis.call('lpop', queue)\n"                                                              \
    "    redis.call('zrem', scores, owner)\n"                                                      \
    "    for _, one in ipairs(redis.call('zrange', scores, 0, -1)) do\n"                           \
    "      redis.call('zincrby', scores, -wait, one)\n"                                            \
    "    end\n"                                                                                    \
    "  elseif redis.call('hexists', lock, owner) == 0 then\n"                                      \
    "    return false\n"                                                                           \
    "  end\n"                                                                                      \
    "  redis.call('hincrby', lock, owner, 1)\n"                                                    \
    "  redis.call('pexpire', lock, lease)\n"                                                       \
    "  return true\n"                                                                              \
    "end\n"

#define ACQUIRE                                                                                    \
    HEAD PURGE TAKE "purge()\n"                                                                    \
                    "if take() then return nil end\n"                                              \
                    "local ttl = redis.call('pttl', lock)\n"                                       \
                    "local mine = redis.call('zscore', scores, owner)\n"                           \
                    "if mine then return old and mine - wait - now or math.max(0, ttl) end\n"      \
                    "local last = redis.call('lindex', queue, -1)\n"                               \
                    "if last and last ~= owner then\n"                                             \
                    "  local score = redis.call('zscore', scores, last)\n"                         \
                    "  if old and not score then error('no score') end\n"                          \
                    "  ttl = score and tonumber(score) - now or ttl\n"                             \
                    "end\n"                                                                        \
                    "if redis.call('zadd', scores, ttl + wait + now, owner) == 1 then\n"           \
                    "  redis.call('rpush', queue, owner)\n"                                        \
                    "end\n"                                                                        \
                    "return ttl\n"

#define TRY                                                                                        \
    HEAD PURGE TAKE "purge()\n"                                                                    \
                    "if take() then return nil end\n"                                              \
                    "return 1\n"

#define GIVE_UP                                                                                    \
    HEAD "local behind = false\n"                                                                  \
         "for _, one in ipairs(redis.call('lrange', queue, 0, -1)) do\n"                           \
         "  if behind then redis.call('zincrby', scores, -wait, one) end\n"                        \
         "  behind = behind or one == owner\n"                                                     \
         "end\n"                                                                                   \
         "redis.call('zrem', scores, owner)\n"                                                     \
         "redis.call('lrem', queue, 0, owner)\n"

#define ANNOUNCE                                                                                   \
    "local function announce()\n"                                                                  \
    "  local head = redis.call('lindex', queue, 0)\n"                                              \
    "  if head then redis.call('publish', channel .. ':' .. head, '0') end\n"                      \
    "  return 1\n"                                                                                 \
    "end\n"

#define RELEASE                                                                                    \
    HEAD PURGE ANNOUNCE "purge()\n"                                                                \
                        "if redis.call('exists', lock) == 0 then return announce() end\n"          \
                        "if redis.call('hexists', lock, owner) == 0 then return nil end\n"         \
                        "if redis.call('hincrby', lock, owner, -1) > 0 then\n"                     \
                        "  redis.call('pexpire', lock, lease)\n"                                   \
                        "  return 0\n"                                                             \
                        "end\n"                                                                    \
                        "redis.call('del', lock)\n"                                                \
                        "return announce()\n"

#define RENEW                                                                                      \
    HEAD "local held = redis.call('hexists', lock, owner)\n"                                       \
         "if held == 1 then redis.call('pexpire', lock, lease) end\n"                              \
         "return old and held or {held}\n"

#define FORCE                                                                                      \
    HEAD PURGE ANNOUNCE "purge()\n"                                                                \
                        "return redis.call('del', lock) == 1 and announce() or 0\n"

#define WORDS "4 LOCK QUEUE SCORES CHANNEL OWNER LEASE WAIT NOW"

#define SCRIPTS(age)                                                                               \
    {                                                                                              \
        [PEER_ACQUIRE] = {WORDS, age ACQUIRE}, [PEER_TRY] = {WORDS, age TRY},                      \
        [PEER_GIVE_UP] = {WORDS, age GIVE_UP}, [PEER_RELEASE] = {WORDS, age RELEASE},              \
        [PEER_RENEW] = {WORDS, age RENEW}, [PEER_FORCE] = {WORDS, age FORCE},                      \
    }

const struct peer_script *peer_scripts(enum peer_age age)
{
    static const struct peer_script scripts[][PEER_VERBS] = {
        [PEER_OLD] = SCRIPTS("local old = true\n"),
        [PEER_NEW] = SCRIPTS("local old = false\n"),
    };

    return scripts[age];
}

/* ---- Commands ---- */

/* Writes what a word stands for. */
static int spell(const char *word, const struct peer_values *values, char *text, size_t size)
{
    const struct {
        const char *word, *before, *text, *behind;
    } texts[] = {
        {"LOCK", "", values->lock, ""},
        {"QUEUE", "redisson_lock_queue:{", values->lock, "}"},
        {"SCORES", "redisson_lock_timeout:{", values->lock, "}"},
        {"CHANNEL", "redisson_lock__channel:{", values->lock, "}"},
        {"LATCH", "redisson_unlock_latch:", values->latch, ""},
        {"OWNER", "", values->owner, ""},
    };
    const struct {
        const char *word;
        int64_t ms;
    } times[] = {{"LEASE", values->lease}, {"WAIT", values->wait}, {"NOW", values->now}};

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        if (strcmp(word, texts[i].word) == 0) {
            return snprintf(text, size, "%s%s%s", texts[i].before,
                            texts[i].text != NULL ? texts[i].text : "", texts[i].behind);
        }
    }
    for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++) {
        if (strcmp(word, times[i].word) == 0) {
            return snprintf(text, size, "%" PRId64, times[i].ms);
        }
    }
    return snprintf(text, size, "%s", word);
}

void peer_spell(const struct peer_script *script, const struct peer_values *values,
                struct peer_command *ret_command)
{
    char words[512];
    char *rest = words, *at = ret_command->text, *end = at + sizeof(ret_command->text);
    size_t n = 0;

    (void)snprintf(words, sizeof(words), "%s", script->words);
    ret_command->argv[n++] = "EVAL";
    ret_command->argv[n++] = script->body;
    for (char *word = strsep(&rest, " "); word != NULL; word = strsep(&rest, " ")) {
        ret_command->argv[n++] = at;
        at += spell(word, values, at, (size_t)(end - at)) + 1;
        if (n == PEER_WORDS || at >= end) {
            abort();
        }
    }
    ret_command->argv[n] = NULL;
}
