/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Candidates for a lock: leader.h. A candidate has an owner of its own, and uses the async calls.
 *
 *   STANDING   a take without an end is under way. Granted: CONFIRMING; failed: RESTING
 *   CONFIRMING a grant by release is shorter than the margin: it is extended. LEADING, or LEAVING
 *   LEADING    the alarm looks at the validity: too little, or resign(): LEAVING
 *   LEAVING    the unlock is under way: RESTING
 *   RESTING    the alarm ends it: STANDING
 *   OVER       the candidate is freed
 *
 * Everything but resign() and free() runs on the dispatcher of one client, one after the other: the
 * lock's, or a group's home. The user's callback runs without the candidate's mutex.
 */
#include <rlock/leader.h>

#include <stdlib.h>

#include "base/clock.h"
#include "client/leader.h"
#include "drive/alarm.h"

enum state { STANDING, CONFIRMING, LEADING, LEAVING, RESTING, OVER };

struct rlock_leader {
    struct rlock_handle *lock; /* a reference */
    struct rlock_client *client;
    struct rlock_leader_opts opts;
    struct rlock__alarm alarm;
    uint64_t owner;
    atomic_int state;      /* enum state; changes under the mutex */
    pthread_mutex_t mutex; /* for all below */
    pthread_cond_t returned;
    unsigned refs;         /* the user's, and one for each callback of the library that is to come
                            * or runs; an alarm counts once it has rung for a freed candidate */
    struct rlock_op *take; /* STANDING: a reference */
    int64_t rests_until;   /* RESTING */
    bool is_told;          /* on_term runs, in this thread: */
    pthread_t teller;
    bool is_freed, is_resigning;
    uint64_t number, token;
};

/* Drops a reference, and the mutex. */
static void unref(struct rlock_leader *leader)
{
    bool last = --leader->refs == 0;

    (void)pthread_mutex_unlock(&leader->mutex);
    if (last) {
        (void)rlock__lock_unref(leader->lock);
        (void)pthread_cond_destroy(&leader->returned);
        (void)pthread_mutex_destroy(&leader->mutex);
        free(leader);
    }
}

/* Until when the candidate may lead, by the validity of its hold. */
static int64_t may_lead_until(const struct rlock_leader *leader)
{
    uint32_t count;

    if (atomic_load(&leader->client->closed)) {
        return 0;
    }
    return leader->lock->vtable->known(leader->lock, leader->owner, &count) -
           leader->opts.margin_ms * RLOCK__MS;
}

/* Tells an event, without the mutex. */
static void tell(struct rlock_leader *leader, int event, int reason)
{
    const struct rlock_term term = {.size = sizeof(term),
                                    .name = rlock_name(leader->lock, NULL),
                                    .number = leader->number,
                                    .token = leader->token,
                                    .owner = leader->owner,
                                    .event = event,
                                    .reason = reason};

    if (leader->opts.on_term == NULL || leader->is_freed) {
        return;
    }
    leader->is_told = true;
    leader->teller = pthread_self();
    (void)pthread_mutex_unlock(&leader->mutex);
    leader->opts.on_term(&term, leader->opts.payload);
    (void)pthread_mutex_lock(&leader->mutex);
    leader->is_told = false;
    (void)pthread_cond_broadcast(&leader->returned);
}

static void note_failed(const struct rlock_leader *leader, int code)
{
    struct rlock_client *client = leader->client;
    char name[96];
    size_t len;
    const char *at = rlock_name(leader->lock, &len);

    (void)rlock__text(rlock__bytes(at, len), name, sizeof(name));
    rlock__enter(client);
    rlock__note(&client->core, RLOCK_LOG_WARNING, rlock__about("leader", NULL, code),
                "lock %s: a candidate cannot take it, and tries again in %lld ms: %s", name,
                (long long)leader->opts.rest_ms, rlock_strerror(code));
    rlock__leave(client);
}

static void set_alarm(struct rlock_leader *leader, int64_t at)
{
    rlock__enter(leader->client);
    rlock__alarm_set(leader->client, &leader->alarm, at);
    rlock__leave(leader->client);
}

/* For good if the client is closed. */
static void rest(struct rlock_leader *leader)
{
    leader->state = leader->is_freed ? OVER : RESTING;
    leader->rests_until = rlock__now_us() + leader->opts.rest_ms * RLOCK__MS;
    if (!leader->is_freed) {
        set_alarm(leader, leader->rests_until);
    }
}

/* A release has ended, or did not begin. On the dispatcher. */
static void tell_resigned(struct rlock_leader *leader)
{
    if (leader->is_resigning) {
        leader->is_resigning = false;
        tell(leader, RLOCK_TERM_RESIGNED, 0);
    }
}

/* ---- Operations. Each has a reference to the candidate ---- */

/* The lock could not be taken: the candidate tries again later. */
static void failed(struct rlock_leader *leader, int code)
{
    if (!leader->is_freed && code != RLOCK_ECLOSED) {
        note_failed(leader, code);
    }
    rest(leader);
}

static void left(struct rlock_op *op, void *payload)
{
    struct rlock_leader *leader = payload;

    (void)op; /* whatever it returned, the hold is no more */
    (void)pthread_mutex_lock(&leader->mutex);
    tell_resigned(leader);
    rest(leader);
    unref(leader);
}

/* Gives the lock back. */
static void leave(struct rlock_leader *leader)
{
    leader->state = LEAVING;
    leader->refs++;
    if (rlock_unlock_async(leader->lock, leader->owner, left, leader, NULL) != 0) {
        leader->refs--; /* the client is closed, or there is no memory */
        (void)rlock_owner_end(leader->client, leader->owner);
        rest(leader);
    }
}

/* The term ends. */
static void depose(struct rlock_leader *leader, int reason)
{
    leader->state = LEAVING; /* the callback cannot resign: the term is over */
    tell(leader, RLOCK_TERM_DEPOSED, reason);
    leave(leader);
}

static void elect(struct rlock_leader *leader)
{
    leader->state = LEADING;
    leader->number++;
    set_alarm(leader, may_lead_until(leader));
    tell(leader, RLOCK_TERM_ELECTED, 0);
}

static void confirmed(struct rlock_op *op, void *payload)
{
    struct rlock_leader *leader = payload;

    (void)pthread_mutex_lock(&leader->mutex);
    if (!leader->is_freed && may_lead_until(leader) > rlock__now_us()) {
        elect(leader);
    } else {
        note_failed(leader, rlock_op_code(op) != 0 ? rlock_op_code(op) : RLOCK_ELOST);
        leave(leader);
    }
    unref(leader);
}

static void confirm(struct rlock_leader *leader)
{
    int code = rlock_extend_async(leader->lock, leader->owner, 0, confirmed, leader, NULL);

    leader->state = CONFIRMING;
    leader->refs += code == 0;
    if (code != 0) {
        leave(leader);
    }
}

static void taken(struct rlock_op *op, void *payload)
{
    struct rlock_leader *leader = payload;
    struct rlock_grant grant = RLOCK_GRANT_INIT;
    int code = rlock_op_code(op);

    (void)rlock_op_grant(op, &grant);
    (void)pthread_mutex_lock(&leader->mutex);
    leader->take = rlock_op_unref(leader->take);
    leader->token = grant.token;
    if (code != 0) {
        failed(leader, code);
    } else if (leader->is_freed) {
        leave(leader);
    } else if (may_lead_until(leader) > rlock__now_us()) {
        elect(leader);
    } else {
        confirm(leader);
    }
    unref(leader);
}

static void stand(struct rlock_leader *leader)
{
    int code = rlock_lock_async(leader->lock, RLOCK_FOREVER, RLOCK_TAKE(.owner = leader->owner),
                                taken, leader, &leader->take);

    leader->state = STANDING;
    leader->refs += code == 0;
    if (code != 0) {
        failed(leader, code);
    }
}

/* ---- The alarm ---- */

/* The rest is over, or the validity of the hold comes to its end; or it has grown, or the alarm
 * rang for a loss. */
static void look(struct rlock_leader *leader, int reason)
{
    struct rlock__owner owner = {.id = leader->owner, .given = true};
    struct rlock__standing standing;
    int64_t until = leader->state == LEADING ? may_lead_until(leader) : leader->rests_until;

    if (until > rlock__now_us()) {
        set_alarm(leader, until);
    } else if (leader->state == LEADING) {
        if (reason == 0 && leader->lock->vtable->standing(leader->lock, owner, &standing)) {
            reason = (int)standing.reason; /* it is lost, and not yet told */
        }
        reason = atomic_load(&leader->client->closed) ? RLOCK_LOST_CLOSED : reason;
        depose(leader, reason != 0 ? reason : RLOCK_LOST_EXPIRED);
    } else if (leader->state == RESTING) {
        stand(leader);
    }
}

static void on_alarm(struct rlock__op *op)
{
    struct rlock_leader *leader = op->payload;
    int reason;

    (void)pthread_mutex_lock(&leader->mutex); /* first: free() asks whether the alarm has rung */
    rlock__enter(leader->client);
    reason = rlock__alarm_heard(&leader->alarm);
    rlock__leave(leader->client);
    leader->refs += !leader->is_freed; /* otherwise the alarm has one */
    if (leader->state == RESTING) {
        tell_resigned(leader);
    }
    if (!leader->is_freed) {
        look(leader, reason);
    }
    unref(leader);
}

/* ---- The interface ---- */

int rlock_leader_new(struct rlock_handle *lock, const struct rlock_leader_opts *opts,
                     struct rlock_leader **ret_leader)
{
    RLOCK__WHOLE;
    struct rlock_leader_opts checked = {.size = sizeof(checked)};
    struct rlock_leader *leader;
    int code = rlock__leader_check(lock, opts, ret_leader, &checked);

    if (code != 0) {
        return code;
    }
    leader = calloc(1, sizeof(*leader));
    if (leader == NULL) {
        return rlock__fail(RLOCK_ENOMEM, "no memory");
    }
    leader->lock = rlock__lock_ref(lock);
    leader->client = lock->group != NULL ? rlock__home_of(lock->group) : lock->client;
    leader->opts = checked;
    leader->owner = rlock_owner_new(lock->client);
    leader->refs = 1;
    (void)pthread_mutex_init(&leader->mutex, NULL);
    (void)pthread_cond_init(&leader->returned, NULL);
    leader->alarm.op.finish = on_alarm;
    leader->alarm.op.payload = leader;
    leader->alarm.owner = leader->owner;
    rlock__enter(leader->client);
    rlock__alarm_add(leader->client, &leader->alarm);
    rlock__leave(leader->client);
    *ret_leader = leader; /* before on_term runs */
    (void)pthread_mutex_lock(&leader->mutex);
    stand(leader);
    (void)pthread_mutex_unlock(&leader->mutex);
    rlock__detail_clear(); /* what the candidate tries again is no failure of this call */
    return 0;
}

/* In a child of fork another thread of the parent may have had the mutex. */
static bool is_here(const struct rlock_leader *leader)
{
    return leader != NULL && leader->client->fork_generation == rlock__fork_generation();
}

bool rlock_leader_is_leading(const struct rlock_leader *leader)
{
    return is_here(leader) && atomic_load(&leader->state) == LEADING &&
           may_lead_until(leader) > rlock__now_us();
}

int rlock_leader_resign(struct rlock_leader *leader)
{
    RLOCK__WHOLE;
    int code;

    rlock__detail_clear();
    if (leader == NULL) {
        return rlock__fail(RLOCK_EINVAL, "leader is NULL");
    }
    code = rlock__client_check(leader->client);
    if (code != 0) {
        return code;
    }
    (void)pthread_mutex_lock(&leader->mutex);
    if (leader->state == LEADING) {
        leader->is_resigning = true;
        leave(leader);
    } else {
        code = rlock__fail(RLOCK_ENOTOWNER, "the candidate is not the leader");
    }
    (void)pthread_mutex_unlock(&leader->mutex);
    return code;
}

struct rlock_leader *rlock_leader_free(struct rlock_leader *leader)
{
    RLOCK__WHOLE;
    if (leader == NULL || !is_here(leader)) {
        return NULL; /* a child has no threads that could end it */
    }
    (void)pthread_mutex_lock(&leader->mutex);
    leader->is_freed = true;
    rlock_op_cancel(leader->take);
    if (leader->state == LEADING) {
        leave(leader);
    }
    rlock__enter(leader->client);
    leader->refs += !rlock__alarm_remove(leader->client, &leader->alarm); /* it has rung */
    rlock__leave(leader->client);
    while (leader->is_told && !pthread_equal(leader->teller, pthread_self())) {
        (void)pthread_cond_wait(&leader->returned, &leader->mutex);
    }
    unref(leader);
    return NULL;
}
