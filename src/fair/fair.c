/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fair lock: Redisson's FairLock and, by option, NonReentrantFairLock. First come, first served
 * as the server saw it: a list holds the waiters' owners, a sorted set until when each of them
 * counts; a release wakes the head alone, on a channel of its own.
 *
 * A head that died would stop the queue. So whoever finds the lock free under another head is told
 * how many hear the 16 in front, and remembers since when each was so: one that nobody hears for a
 * second is dead, and a head that is heard but does not come for three seconds too. The next look
 * names them, and the script takes them out if they still are as they were.
 */
#include <stdlib.h>

#include "lock/plain.h"

#include <lua_scripts.h>

#define SLOT_MS 300000 /* Redisson's fairLockWaitTimeout */
#define FRONT 16       /* of those in front so many are looked at */
#define NAME_SIZE 96   /* longer ones are never taken for dead */
#define UNHEARD_US RLOCK__SECOND
#define SILENT_US (3 * RLOCK__SECOND)
#define LOOK_MS 500        /* between two looks of a waiter whose turn it may be next */
#define AFTERWARDS_MS 1000 /* between two looks after a release */
#define RECHECK_MS 5000

/* One who stands in front, as the last replies had it. */
struct one {
    int64_t since;
    int64_t receivers;
    size_t len;
    char name[NAME_SIZE];
};

/* What a call remembers: who stands in front of it while the lock is free. */
struct front {
    int64_t slot_ms;
    int64_t head_score, head_since;
    size_t n;
    struct one ones[FRONT];
};

static int64_t slot_of(const struct rlock__spec *spec)
{
    return spec->tuning.fair_slot_ms != 0 ? spec->tuning.fair_slot_ms : SLOT_MS;
}

/* ---- Commands ---- */

static void add_keys(const struct rlock__spec *spec, struct rlock__cmd *cmd)
{
    struct rlock__buf name = {0};

    rlock__cmd_key(cmd, spec->key);
    rlock__prefixed_name("redisson_lock_queue", spec->key, &name);
    rlock__cmd_key(cmd, rlock__bytes(name.data, name.len));
    rlock__buf_clear(&name);
    rlock__prefixed_name("redisson_lock_timeout", spec->key, &name);
    rlock__cmd_key(cmd, rlock__bytes(name.data, name.len));
    cmd->keys.failed |= name.failed;
    rlock__buf_fini(&name);
}

/* Whether the i-th in front was long enough without a sign of life. */
static bool is_dead(const struct front *front, size_t i, int64_t now)
{
    const struct one *one = &front->ones[i];

    if (i == front->n || one->len == 0) {
        return false;
    }
    return one->receivers == 0 ? now - one->since >= UNHEARD_US
                               : i == 0 && now - front->head_since >= SILENT_US;
}

/* Names the dead, after the head's score by which the script knows that it is still the same. */
static void add_dead(const struct front *front, int64_t now, struct rlock__cmd *cmd)
{
    rlock__cmd_num(cmd, is_dead(front, 0, now) ? front->head_score : 0);
    for (size_t i = 0; i < front->n; i++) {
        if (is_dead(front, i, now)) {
            rlock__cmd_arg(cmd, rlock__bytes(front->ones[i].name, front->ones[i].len));
            rlock__cmd_num(cmd, front->ones[i].receivers);
        }
    }
}

static void acquire(const struct rlock__spec *spec, const struct rlock__ask *ask,
                    struct rlock__cmd *ret_cmd)
{
    struct front *front = ask->memo;

    ret_cmd->script = &rlock__script_fair_acquire;
    add_keys(spec, ret_cmd);
    rlock__cmd_arg(ret_cmd, ask->owner);
    rlock__cmd_num(ret_cmd, ask->lease_ms);
    rlock__cmd_num(ret_cmd, ask->count);
    rlock__cmd_num(ret_cmd, slot_of(spec));
    rlock__cmd_num(ret_cmd, ask->waits);
    rlock__cmd_arg(ret_cmd, rlock__bytes_of(ask->publish));
    rlock__cmd_arg(ret_cmd, spec->channel);
    front->slot_ms = slot_of(spec);
    add_dead(front, ask->now, ret_cmd);
}

/* Nobody's acquire, of nothing. */
static void look(const struct rlock__spec *spec, const struct rlock__ask *ask,
                 struct rlock__cmd *ret_cmd)
{
    struct rlock__ask nobody = *ask;

    nobody.owner = rlock__bytes("", 0);
    nobody.count = 0;
    nobody.waits = false;
    acquire(spec, &nobody, ret_cmd);
}

static void release(const struct rlock__spec *spec, const struct rlock__ask *ask,
                    struct rlock__cmd *ret_cmd)
{
    ret_cmd->script = &rlock__script_fair_release;
    add_keys(spec, ret_cmd);
    rlock__cmd_arg(ret_cmd, ask->owner);
    rlock__cmd_num(ret_cmd, ask->count);
    rlock__cmd_num(ret_cmd, ask->lease_ms);
    rlock__cmd_num(ret_cmd, slot_of(spec));
    rlock__cmd_arg(ret_cmd, rlock__bytes_of(ask->publish));
    rlock__cmd_arg(ret_cmd, spec->channel);
}

static void inspect(const struct rlock__spec *spec, struct rlock__cmd *ret_cmd)
{
    ret_cmd->script = &rlock__script_fair_inspect;
    add_keys(spec, ret_cmd);
}

static void force(const struct rlock__spec *spec, const struct rlock__ask *ask,
                  struct rlock__cmd *ret_cmd)
{
    ret_cmd->script = &rlock__script_fair_force;
    add_keys(spec, ret_cmd);
    rlock__cmd_arg(ret_cmd, ask->seen);
    rlock__cmd_arg(ret_cmd, rlock__bytes_of(ask->publish));
    rlock__cmd_arg(ret_cmd, spec->channel);
}

/* ---- Replies ---- */

/* Where in a reply stands what. */
enum { TTL = 1, PLACE = 3, SCORE, LEFT, PAIRS };

static bool is_free(const struct rlock__reply *reply)
{
    return reply->n > LEFT;
}

static const struct one *find(const struct front *front, const struct one *like)
{
    for (size_t i = 0; i < front->n; i++) {
        const struct one *one = &front->ones[i];

        if (one->receivers == like->receivers && one->len == like->len &&
            memcmp(one->name, like->name, like->len) == 0) {
            return one;
        }
    }
    return NULL;
}

/* Notes who stands in front now; who stood there before, and the same, keeps its time. */
static void remember(struct front *front, const struct rlock__reply *reply, int64_t now)
{
    struct front before = *front;
    int64_t score = rlock__reply_int(reply, SCORE, 0);

    front->n = 0;
    for (size_t i = PAIRS; i + 1 < reply->n && front->n < FRONT; i += 2) {
        struct rlock__bytes name = rlock__reply_str(reply, i);
        struct one *one = &front->ones[front->n++];
        const struct one *old;

        one->receivers = rlock__reply_int(reply, i + 1, -1);
        one->len = name.len <= NAME_SIZE ? name.len : 0;
        memcpy(one->name, name.at, one->len);
        old = one->len != 0 ? find(&before, one) : NULL;
        one->since = old != NULL ? old->since : now;
        if (i == PAIRS && (old != &before.ones[0] || score != before.head_score)) {
            front->head_since = now;
        }
    }
    front->head_score = score;
}

/* Whether nobody hears any of those in front. */
static bool all_unheard(const struct front *front)
{
    for (size_t i = 0; i < front->n; i++) {
        if (front->ones[i].receivers != 0) {
            return false;
        }
    }
    return true;
}

/* How long a waiter sleeps at most while the lock is free under another head. */
static int64_t look_again_ms(const struct front *front, const struct rlock__reply *reply)
{
    int64_t place = rlock__reply_int(reply, PLACE, 0);
    bool next = place == 2 || (place != 0 && place == (int64_t)front->n + 1 && all_unheard(front));
    int64_t left = rlock__max(rlock__reply_int(reply, LEFT, 0), 0) + 1;

    return rlock__min(left, next ? LOOK_MS : RECHECK_MS);
}

static struct rlock__answer read_acquire(const struct rlock__reply *reply, void *memo, int64_t now)
{
    struct rlock__answer answer = rlock__plain_read_acquire(reply, memo, now);
    struct front *front = memo;

    if (answer.outcome != RLOCK__BUSY) {
        return answer;
    }
    if (is_free(reply)) {
        remember(front, reply, now);
        answer.recheck_ms = look_again_ms(front, reply);
    } else {
        front->n = 0;
        if (rlock__reply_int(reply, PLACE, 0) > FRONT) {
            answer.ttl_ms = -1; /* others come first when the lease ends: no need to look then */
        }
        answer.recheck_ms = RECHECK_MS;
    }
    /* its own score must not come near its end between two looks */
    answer.recheck_ms = rlock__min(answer.recheck_ms, rlock__max(front->slot_ms / 3, 1));
    return answer;
}

static int64_t read_look(const struct rlock__reply *reply, void *memo, int64_t now)
{
    struct front *front = memo;

    if (!reply->is_array || reply->n <= PAIRS) {
        return 0;
    }
    if (front != NULL) {
        remember(front, reply, now);
    }
    /* a release has counted those who hear the head; if nobody does, the others matter as well */
    return rlock__reply_int(reply, TTL, 0) != -2 && rlock__reply_int(reply, PAIRS + 1, -1) == 0
               ? 1
               : AFTERWARDS_MS;
}

static bool read_inspect(const struct rlock__reply *reply, struct rlock_info *ret_info,
                         struct rlock__buf *ret_seen)
{
    ret_info->waiters = (uint32_t)rlock__reply_int(reply, 5, 0);
    return rlock__plain_read_inspect(reply, ret_info, ret_seen);
}

const struct rlock_ops rlock__fair_ops = {
    .kind = "fair",
    .caps = RLOCK__CAP_REENTRANT | RLOCK__CAP_QUEUES,
    .side = 'x',
    .memo_size = sizeof(struct front),
    .channel = rlock__plain_channel,
    .acquire = acquire,
    .release = release,
    .renew = rlock__plain_renew,
    .look = look,
    .inspect = inspect,
    .force = force,
    .read_acquire = read_acquire,
    .read_release = rlock__plain_read_release,
    .read_look = read_look,
    .read_inspect = read_inspect,
};
