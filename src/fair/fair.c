/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fair lock: Redisson's FairLock and, by option, NonReentrantFairLock. First come, first served
 * as the server saw it: a list holds the waiters' owners, a sorted set until when each of them
 * counts; a release grants the lock to the head, or wakes the head alone, on a channel of its
 * own.
 *
 * A head that died would stop the queue. So whoever finds the lock free under another head notes on
 * the server what it sees of those in front, where every caller of every process adds to it: one
 * that nobody hears for a second is dead, and one that was asked for three seconds and does not
 * come. The scripts take them out; here is only how soon a waiter looks again.
 */
#include "lock/core.h"
#include "lock/plain.h"

#include <lua_scripts.h>

#define QUEUE RLOCK__FAIR_QUEUE        /* a list of owners */
#define SCORES "redisson_lock_timeout" /* until when each of them counts */
#define NOTES "rlock_fair"             /* what is known of those in front of a free lock */

#define SLOT_MS 300000 /* Redisson's fairLockWaitTimeout */
#define NEAR 16        /* places from which a waiter looks more often */
#define NEXT_MS 500    /* between two looks of a waiter whose turn it may be next */
#define NEAR_MS 1000   /* of one that is near */
#define RECHECK_MS 5000

static int64_t slot_of(const struct rlock__spec *spec)
{
    return spec->tuning->fair_slot_ms != 0 ? spec->tuning->fair_slot_ms : SLOT_MS;
}

/* ---- Commands ---- */

static void acquire(const struct rlock__spec *spec, const struct rlock__args *args,
                    struct rlock__cmd *ret_cmd)
{
    if (args->count > 1) { /* who has it need not stand in the queue */
        rlock__plain_acquire(spec, args, ret_cmd);
        return;
    }
    ret_cmd->script = &rlock__script_fair_acquire;
    rlock__cmd_key(ret_cmd, spec->key);
    rlock__prefixed_key(QUEUE, spec->key, ret_cmd);
    rlock__prefixed_key(SCORES, spec->key, ret_cmd);
    rlock__prefixed_key(NOTES, spec->key, ret_cmd);
    rlock__cmd_arg(ret_cmd, args->owner);
    rlock__cmd_num(ret_cmd, args->lease_ms);
    rlock__cmd_num(ret_cmd, slot_of(spec));
    rlock__cmd_num(ret_cmd, args->waits);
    rlock__cmd_num(ret_cmd, args->hint);
    rlock__announcement(spec, ret_cmd);
    rlock__cmd_arg(ret_cmd, args->settled);
    rlock__cmd_num(ret_cmd, args->may_push);
}

static void release(const struct rlock__spec *spec, const struct rlock__args *args,
                    struct rlock__cmd *ret_cmd)
{
    ret_cmd->script = &rlock__script_fair_release;
    rlock__cmd_key(ret_cmd, spec->key);
    rlock__cmd_arg(ret_cmd, args->owner);
    rlock__cmd_num(ret_cmd, args->count);
    rlock__cmd_num(ret_cmd, args->lease_ms);
    rlock__cmd_num(ret_cmd, slot_of(spec));
    rlock__announcement(spec, ret_cmd);
    rlock__prefixed_arg(QUEUE, spec->key, ret_cmd);
    rlock__prefixed_arg(SCORES, spec->key, ret_cmd);
    rlock__prefixed_arg(NOTES, spec->key, ret_cmd);
}

static void rename_hold(const struct rlock__spec *spec, const struct rlock__args *args,
                        struct rlock__cmd *ret_cmd)
{
    ret_cmd->script = &rlock__script_fair_rename;
    rlock__cmd_key(ret_cmd, spec->key);
    rlock__cmd_arg(ret_cmd, args->from);
    rlock__cmd_arg(ret_cmd, args->owner);
    rlock__cmd_num(ret_cmd, args->lease_ms);
    rlock__announcement(spec, ret_cmd);
    rlock__prefixed_arg(QUEUE, spec->key, ret_cmd);
}

/* Whether the server that has the queue knows everybody that hears a waiter's channel: a plain
 * channel of a cluster may be heard at any node. */
static bool knows_all_ears(const struct rlock__spec *spec)
{
    struct rlock__core *core = spec->core;

    return core->driver.redirect == NULL ||
           (!core->opts.announces_both && rlock__server_is_sharded(core->driver.route(core, spec)));
}

static void inspect(const struct rlock__spec *spec, struct rlock__cmd *ret_cmd)
{
    ret_cmd->script = &rlock__script_fair_inspect;
    rlock__cmd_key(ret_cmd, spec->key);
    rlock__prefixed_arg(QUEUE, spec->key, ret_cmd);
    rlock__announcement(spec, ret_cmd);
    rlock__cmd_arg(ret_cmd, rlock__bytes_of(knows_all_ears(spec) ? "" : "-"));
}

static void force(const struct rlock__spec *spec, const struct rlock__args *args,
                  struct rlock__cmd *ret_cmd)
{
    ret_cmd->script = &rlock__script_fair_force;
    rlock__cmd_key(ret_cmd, spec->key);
    rlock__cmd_arg(ret_cmd, args->seen);
    rlock__announcement(spec, ret_cmd);
    rlock__cmd_num(ret_cmd, slot_of(spec));
    rlock__prefixed_arg(QUEUE, spec->key, ret_cmd);
    rlock__prefixed_arg(SCORES, spec->key, ret_cmd);
    rlock__prefixed_arg(NOTES, spec->key, ret_cmd);
}

/* ---- Replies ---- */

/* Where in the reply of a busy lock stands what. */
enum { TTL = 1, PLACE = 3, PEERS, COMING, TICKET };

/* How long a waiter sleeps at most: its own score must not come near its end between two looks. */
static int64_t recheck_ms(const struct rlock__spec *spec, const struct rlock__reply *reply)
{
    int64_t place = rlock__reply_int(reply, PLACE, 0), pause = RECHECK_MS;

    if (rlock__reply_int(reply, TTL, 0) == -2) { /* free, under another head */
        bool is_next = place == 2 || rlock__reply_int(reply, COMING, 1) == 0;

        pause = is_next ? NEXT_MS : place <= NEAR ? NEAR_MS : RECHECK_MS;
    }
    return rlock__min(pause, slot_of(spec) / 3);
}

static struct rlock__answer read_acquire(const struct rlock__spec *spec,
                                         const struct rlock__reply *reply)
{
    struct rlock__answer answer = rlock__plain_read_acquire(spec, reply);
    int64_t place = rlock__reply_int(reply, PLACE, 0);

    if (answer.outcome != RLOCK__BUSY) {
        return answer;
    }
    if (answer.ttl_ms >= 0 && place > NEAR) {
        answer.ttl_ms = -1; /* others come first when the lease ends: no need to look then */
    }
    answer.recheck_ms = recheck_ms(spec, reply);
    answer.ticket = rlock__reply_int(reply, TICKET, 0);
    answer.hint = place != 0 && rlock__reply_int(reply, PEERS, 1) == 0;
    return answer;
}

static void read_inspect(const struct rlock__reply *reply, struct rlock_info *ret_info,
                         struct rlock__buf *ret_seen)
{
    ret_info->waiters = (uint32_t)rlock__reply_int(reply, 5, 0);
    ret_info->dead_waiters = (uint32_t)rlock__reply_int(reply, 6, 0);
    rlock__plain_read_inspect(reply, ret_info, ret_seen);
}

const struct rlock_ops rlock__fair_ops = {
    .kind = "fair",
    .number = RLOCK_KIND_FAIR,
    .caps = RLOCK__CAP_REENTRANT | RLOCK__CAP_QUEUES,
    .side = 'x',
    .channel = rlock__plain_channel,
    .acquire = acquire,
    .release = release,
    .renew = rlock__plain_renew,
    .rename = rename_hold,
    .inspect = inspect,
    .force = force,
    .read_acquire = read_acquire,
    .read_release = rlock__plain_read_release,
    .read_inspect = read_inspect,
};
