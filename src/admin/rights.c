/* SPDX-License-Identifier: Apache-2.0 */
/* The rights that a user needs on a server. Tries each command, key and channel separately. */
#include <ctype.h>
#include <stdio.h>

#include "admin/diagnosis.h"
#include "lock/server/route.h"
#include "wire/errors.h"

#define NO_LOCKS "locks will not work"
#define IN_DOUBT "after a broken connection some answers are \"in doubt\""
#define FENCED "fenced"
#define FAIR "fair"
#define RW "read/write"
#define SETNX "setnx"
#define PERMITS "permits"
#define NO_GRANT "a release does not grant a fair lock, so the next waiter has to ask"
#define NO_QUEUE "waiting processes cannot queue, so each of them asks at each release"

/* RPUSH alone would leave a list for ever if the connection broke before DEL. */
#define PUSH_AND_DROP "redis.call('rpush',KEYS[1],'x')+return+redis.call('del',KEYS[1])"

/* Each command in a form that does nothing, since permission is looked at before the arguments: %
 * is a key or channel that nobody uses. */
static const struct right {
    const char *right, *words;
    enum rlock__use use;
    const char *meaning;
} commands[] = {
    {"+evalsha", "EVALSHA 0000000000000000000000000000000000000000 0", RLOCK__FOR_ALL, NO_LOCKS},
    {"+eval", "EVAL return+0 0", RLOCK__FOR_ALL, NO_LOCKS},
    {"+exists", "EXISTS %", RLOCK__FOR_ALL, NO_LOCKS},
    {"+hexists", "HEXISTS % field", RLOCK__FOR_ALL, NO_LOCKS},
    {"+hset", "HSET % field value odd", RLOCK__FOR_ALL, NO_LOCKS},
    {"+hget", "HGET % field", RLOCK__FOR_ALL, NO_LOCKS},
    {"+hdel", "HDEL % field", RLOCK__FOR_ALL, NO_LOCKS},
    {"+hlen", "HLEN %", RLOCK__FOR_ALL, NO_LOCKS},
    {"+hkeys", "HKEYS %", RLOCK__FOR_ALL, NO_LOCKS},
    {"+pexpire", "PEXPIRE % 1", RLOCK__FOR_ALL, NO_LOCKS},
    {"+pttl", "PTTL %", RLOCK__FOR_ALL, NO_LOCKS},
    {"+del", "DEL %", RLOCK__FOR_ALL, NO_LOCKS},
    {"+time", "TIME", RLOCK__FOR_ALL, "renewals fail, and holds are lost"},
    {"+get", "GET %", RLOCK__FOR_FENCED, FENCED},
    {"+set", "SET % value XX", RLOCK__FOR_FENCED, FENCED},
    {"+hmget", "HMGET % field", RLOCK__FOR_FAIR, FAIR},
    {"+lindex", "LINDEX % 0", RLOCK__FOR_FAIR, FAIR},
    {"+llen", "LLEN %", RLOCK__FOR_FAIR, FAIR},
    {"+lpos", "LPOS % element", RLOCK__FOR_FAIR, FAIR},
    {"+lrange", "LRANGE % 0 0", RLOCK__FOR_FAIR, FAIR},
    {"+lrem", "LREM % 0 element", RLOCK__FOR_FAIR, FAIR},
    {"+persist", "PERSIST %", RLOCK__FOR_FAIR, FAIR},
    {"+pexpireat", "PEXPIREAT % 1", RLOCK__FOR_FAIR, FAIR},
    {"+rpush", "EVAL " PUSH_AND_DROP " 1 %", RLOCK__FOR_FAIR, FAIR},
    {"+zadd", "ZADD % no-number member", RLOCK__FOR_FAIR, FAIR},
    {"+zcard", "ZCARD %", RLOCK__FOR_FAIR, FAIR},
    {"+zrange", "ZRANGE % 0 0", RLOCK__FOR_FAIR, FAIR},
    {"+zrem", "ZREM % member", RLOCK__FOR_FAIR, FAIR},
    {"+zscore", "ZSCORE % member", RLOCK__FOR_FAIR, FAIR},
    {"+get", "GET %", RLOCK__FOR_RW, RW},
    {"+set", "SET % value XX", RLOCK__FOR_RW, RW},
    {"+hgetall", "HGETALL %", RLOCK__FOR_RW, RW},
    {"+get", "GET %", RLOCK__FOR_SETNX, SETNX},
    {"+set", "SET % value XX", RLOCK__FOR_SETNX, SETNX},
    {"+get", "GET %", RLOCK__FOR_PERMITS, PERMITS},
    {"+set", "SET % value XX", RLOCK__FOR_PERMITS, PERMITS},
    {"+incrby", "INCRBY % no-number", RLOCK__FOR_PERMITS, PERMITS},
    {"+zadd", "ZADD % no-number member", RLOCK__FOR_PERMITS, PERMITS},
    {"+zcard", "ZCARD %", RLOCK__FOR_PERMITS, PERMITS},
    {"+zrange", "ZRANGE % 0 0", RLOCK__FOR_PERMITS, PERMITS},
    {"+zrangebyscore", "ZRANGEBYSCORE % 0 0", RLOCK__FOR_PERMITS, PERMITS},
    {"+zrem", "ZREM % member", RLOCK__FOR_PERMITS, PERMITS},
    {"+zscore", "ZSCORE % member", RLOCK__FOR_PERMITS, PERMITS},
    {"+publish", "PUBLISH % 0", RLOCK__FOR_EASE,
     "waiters of others notice a release only when they look again"},
    {"+unsubscribe", "UNSUBSCRIBE %", RLOCK__FOR_EASE,
     "messages about locks that nobody waits for any more go on coming"},
    {"+zadd", "ZADD % no-number member", RLOCK__FOR_EASE, NO_QUEUE},
    {"+zrange", "ZRANGE % 0 0", RLOCK__FOR_EASE, NO_QUEUE},
    {"+zrank", "ZRANK % member", RLOCK__FOR_EASE, NO_QUEUE},
    {"+zrem", "ZREM % member", RLOCK__FOR_EASE, NO_QUEUE},
    {"+zscore", "ZSCORE % member", RLOCK__FOR_EASE, NO_QUEUE},
    {"+ping", "PING", RLOCK__FOR_EASE, "a connection that died in silence is noticed late"},
    {"+info", "INFO server", RLOCK__FOR_EASE, "a restarted server is not told from a reached one"},
    {"+client|setname", "CLIENT SETNAME rlock-doctor", RLOCK__FOR_EASE,
     "nobody can tell on which machine a holder is"},
    {"+client|id", "CLIENT ID", RLOCK__FOR_EASE, IN_DOUBT},
    {"+client|kill", "CLIENT KILL ID 9223372036854775807", RLOCK__FOR_EASE, IN_DOUBT},
    {"+client|list", "CLIENT LIST ID 0", RLOCK__FOR_EASE,
     "a broken connection's number is killed without a look whose it is now; on which machine a "
     "holder is stays unknown"},
    {"+client|tracking", "CLIENT TRACKING OFF", RLOCK__FOR_EASE, "waiters for setnx locks poll"},
    {"+pubsub|numsub", "PUBSUB NUMSUB %", RLOCK__FOR_EASE,
     "a waiter that was killed is skipped late, and waiting Redissons get no turn"},
    {"+scan", "SCAN 0 COUNT 1", RLOCK__FOR_EASE, "rlock ls does not work"},
};

/* Where a right is needed that is not needed everywhere. */
enum where { IN_CLUSTERS, BEHIND_SENTINELS, WITH_SHARDED, WITH_ACKS, WITH_ACKS_ON_DISK };

static const struct {
    enum where where;
    struct right right;
} more_commands[] = {
    {IN_CLUSTERS,
     {"+cluster|nodes", "CLUSTER NODES", RLOCK__FOR_EASE,
      "others have to say which server has a lock; where none may, locks work with acks off alone, "
      "by CLUSTER SLOTS"}},
    {IN_CLUSTERS,
     {"+asking", "ASKING", RLOCK__FOR_EASE,
      "locks that are being moved here cannot be reached until that is done"}},
    {WITH_SHARDED,
     {"+spublish", "SPUBLISH % 0", RLOCK__FOR_EASE,
      "waiters of others notice a release only when they look again"}},
    {WITH_SHARDED,
     {"+sunsubscribe", "SUNSUBSCRIBE %", RLOCK__FOR_EASE,
      "messages about locks that nobody waits for any more go on coming"}},
    {BEHIND_SENTINELS,
     {"+role", "ROLE", RLOCK__FOR_EASE, "the Sentinels' word that it is the primary has to do"}},
    {WITH_ACKS,
     {"+wait", "WAIT 0 0", RLOCK__FOR_ALL,
      "replicas cannot acknowledge grants, so nothing is granted; set acks = RLOCK_ACKS_OFF"}},
    {WITH_ACKS,
     {"+role", "ROLE", RLOCK__FOR_EASE,
      "the number of replicas that confirm a grant counts, and a copy that no failover promotes "
      "counts too"}},
    {WITH_ACKS_ON_DISK,
     {"+waitaof", "WAITAOF 0 0 0", RLOCK__FOR_ALL,
      "nobody tells that grants are on disk, so nothing is granted"}},
};

static bool applies(const struct rlock__diagnosis *d, enum where where)
{
    struct rlock_client *client = d->client;
    bool wants_acks;

    switch (where) {
    case IN_CLUSTERS:
        return client->core.driver.slot != NULL;
    case BEHIND_SENTINELS:
        return client->router != NULL && client->core.driver.slot == NULL;
    case WITH_SHARDED:
        return rlock__announces_sharded(d);
    case WITH_ACKS:
        rlock__core_mutex_lock(&client->mutex);
        wants_acks = rlock__acks_needed(&d->node->server) != 0;
        rlock__core_mutex_unlock(&client->mutex);
        return wants_acks && !client->core.opts.acks_on_disk;
    case WITH_ACKS_ON_DISK:
        return client->core.opts.acks_on_disk;
    default:
        return true;
    }
}

enum verdict { PERMITTED, NO_COMMAND, NO_KEY, NO_CHANNEL, UNKNOWN };

/* Keys and channels by what stands before the {name}; NULL: the name itself. */
static const struct name {
    enum verdict lack;
    const char *before;
    enum rlock__use use;
    const char *meaning;
} names[] = {
    {NO_KEY, NULL, RLOCK__FOR_ALL, NO_LOCKS},
    {NO_KEY, "redisson_lock_token:", RLOCK__FOR_FENCED, FENCED},
    {NO_KEY, "redisson_lock_queue:", RLOCK__FOR_FAIR, FAIR},
    {NO_KEY, "redisson_lock_timeout:", RLOCK__FOR_FAIR, FAIR},
    {NO_KEY, "rlock_fair:", RLOCK__FOR_FAIR, FAIR},
    {NO_KEY, "rlock_fair_asks:", RLOCK__FOR_EASE, NO_GRANT},
    {NO_KEY, "", RLOCK__FOR_RW, RW},
    {NO_KEY, "rlock_writer_waits:", RLOCK__FOR_RW, RW},
    {NO_KEY, "", RLOCK__FOR_PERMITS, PERMITS},
    {NO_KEY, "rlock_wait:", RLOCK__FOR_EASE, NO_QUEUE},
    {NO_CHANNEL, "redisson_lock__channel:", RLOCK__FOR_EASE,
     "waiters ask several times a second instead of being woken"},
    {NO_CHANNEL, "redisson_rwlock:", RLOCK__FOR_EASE,
     "those who wait to read or write ask several times a second instead of being woken"},
    {NO_CHANNEL, "redisson_sc:", RLOCK__FOR_EASE,
     "waiters for permits ask several times a second instead of being woken"},
};

/* Which permission the server's answer says is missing, or that the server lacks the command. */
static enum verdict judge(const struct rlock__reply *reply)
{
    char text[200];

    if (!rlock__reply_is_error(reply)) {
        return PERMITTED;
    }
    (void)rlock__text(rlock__reply_str(reply, 0), text, sizeof(text));
    if (strstr(text, "can't run this command") != NULL ||
        strstr(text, "permissions to run the") != NULL) { /* so it says of a script's */
        return NO_COMMAND;
    }
    if (strncmp(text, "NOPERM", 6) != 0) {
        return rlock__error_is(reply, RLOCK__LACKING) ? UNKNOWN : PERMITTED;
    }
    if (strstr(text, " channel") != NULL) {
        return NO_CHANNEL;
    }
    return strstr(text, " key") != NULL ? NO_KEY : NO_COMMAND;
}

/* Asks with the words, of which % stands for the name; + within a word is a blank. */
static int ask(struct rlock__diagnosis *d, const char *words, struct rlock__bytes name,
               enum verdict *ret_verdict)
{
    struct rlock__cmd cmd = {0};
    struct rlock__reply reply;
    char copy[128], *rest = copy, *word;
    int code;

    (void)snprintf(copy, sizeof(copy), "%s", words);
    while ((word = strsep(&rest, " ")) != NULL) {
        if (strcmp(word, "%") == 0) {
            rlock__cmd_arg(&cmd, name);
        } else {
            for (char *plus = word; (plus = strchr(plus, '+')) != NULL;) {
                *plus = ' ';
            }
            rlock__cmd_arg(&cmd, rlock__bytes_of(word));
        }
    }
    code = rlock__asker_ask(&d->asker, &cmd, &reply);
    *ret_verdict = code == 0 ? judge(&reply) : PERMITTED;
    return code;
}

/* "<before>{<name>}", or the name itself. */
static struct rlock__bytes full_name(const char *before, struct rlock__bytes name,
                                     struct rlock__buf *buf)
{
    if (before == NULL) {
        return name;
    }
    rlock__buf_clear(buf);
    (void)rlock__buf_addf(buf, "%s{", before);
    (void)rlock__buf_add(buf, name.at, name.len);
    (void)rlock__buf_add(buf, "}", 1);
    return rlock__bytes(buf->data, buf->len);
}

/* Reports what is missing: a right as an ACL has it ("+zscore"), or with known false a command that
 * the server does not know. meaning: the consequence; for what only some kinds need, the kinds. */
static void report(struct rlock__diagnosis *d, enum rlock__use use, const char *right, bool known,
                   const char *meaning)
{
    const char *subject = known ? "rights" : "commands";
    const char *how = known ? "is not permitted" : "is not supported by the server";

    if (use == RLOCK__FOR_ALL) {
        rlock__finding(d, RLOCK_LOG_ERROR, subject, "%s %s: %s", right, how, meaning);
        d->code = d->code == 0 ? (known ? RLOCK_EPERM : RLOCK_EREFUSED) : d->code;
    } else if (use == RLOCK__FOR_EASE) {
        rlock__finding(d, RLOCK_LOG_WARNING, subject, "%s %s: %s", right, how, meaning);
    } else {
        rlock__finding(d, RLOCK_LOG_WARNING, meaning, "such locks will not work: %s %s", right,
                       how);
        d->lacks[use] = true;
    }
}

/* A pattern as an ACL has it: "~redisson_lock_queue:{app:*". */
static void report_name(struct rlock__diagnosis *d, const struct name *name)
{
    char prefix[96], right[200];

    (void)rlock__text(d->client->core.opts.prefix, prefix, sizeof(prefix));
    (void)snprintf(right, sizeof(right), "%c%s%s%s*", name->lack == NO_KEY ? '~' : '&',
                   name->before != NULL ? name->before : "", name->before != NULL ? "{" : "",
                   prefix);
    report(d, name->use, right, true, name->meaning);
}

/* A right as an ACL has it: "+client|kill"; a command as one types it: "CLIENT KILL". */
static void report_command(struct rlock__diagnosis *d, const struct right *right, bool known)
{
    char name[32];
    size_t i;

    (void)snprintf(name, sizeof(name), "%s", known ? right->right : right->right + 1);
    for (i = 0; !known && name[i] != '\0'; i++) {
        name[i] = (char)(name[i] == '|' ? ' ' : toupper((unsigned char)name[i]));
    }
    report(d, right->use, name, known, right->meaning);
}

/* Where no lock will work, the rest does not matter: lacks. */
static int try_command(struct rlock__diagnosis *d, struct rlock__bytes key,
                       const struct right *right, bool *inout_lacks)
{
    enum verdict verdict;
    int code;

    if (*inout_lacks && right->use != RLOCK__FOR_ALL) {
        return 0;
    }
    code = ask(d, right->words, key, &verdict);
    if (verdict == NO_COMMAND || verdict == UNKNOWN) {
        report_command(d, right, verdict == NO_COMMAND);
        *inout_lacks = *inout_lacks || right->use == RLOCK__FOR_ALL;
    }
    return code;
}

static int try_commands(struct rlock__diagnosis *d, struct rlock__bytes key)
{
    enum verdict verdict;
    bool lacks = false;
    int code = 0;

    for (size_t i = 0; code == 0 && i < sizeof(commands) / sizeof(commands[0]); i++) {
        code = try_command(d, key, &commands[i], &lacks);
    }
    for (size_t i = 0; code == 0 && i < sizeof(more_commands) / sizeof(more_commands[0]); i++) {
        if (applies(d, more_commands[i].where)) {
            code = try_command(d, key, &more_commands[i].right, &lacks);
        }
    }
    return code == 0 ? ask(d, "DEL %", key, &verdict) : code;
}

int rlock__rights_try(struct rlock__diagnosis *d, struct rlock__bytes key)
{
    struct rlock__buf buf = {0};
    int code = try_commands(d, key);

    for (size_t i = 0; code == 0 && i < sizeof(names) / sizeof(names[0]); i++) {
        const struct name *name = &names[i];
        enum verdict verdict;

        code = ask(d, name->lack == NO_KEY ? "EXISTS %" : "PUBLISH % 0",
                   full_name(name->before, key, &buf), &verdict);
        if (verdict == name->lack) {
            report_name(d, name);
        }
    }
    rlock__buf_fini(&buf);
    return code;
}
