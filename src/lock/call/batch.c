/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A batch: several calls of one owner that one script takes, all or none. Each call is an
 * acquisition with its own number, hold, doubt and release. The calls share the attempt, which is
 * sent once each call has the turn on its hold. If a lock is busy, its call becomes the sender: it
 * joins that lock's wait queue and channel, and the other calls wait for the sender alone. The
 * batch holds nothing meanwhile. So no circle of waiters can arise, in whatever order users name
 * their locks.
 *
 * Hot locks may each be free often, but never all at once. So a batch gives up after some rounds,
 * or at a time that its user gave: its sender ends as busy. A batch also ends as busy if the server
 * refused it a few times because its slot is being moved. Each lock alone may succeed then.
 */
#include <assert.h>

#include <lua_scripts.h>

#include "lock/call/acquire.h"
#include "lock/call/calls.h"
#include "lock/common.h"
#include "lock/hold/queue.h"
#include "lock/server/classify.h"
#include "lock/server/hop.h"
#include "lock/server/route.h"
#include "lock/server/send.h"

#define ROUNDS 8
#define REFUSALS 3

/* Whether the batch still has all its calls, and none of them gives up. */
static bool is_whole(const struct rlock__batch *batch)
{
    for (size_t i = 0; i < batch->n; i++) {
        if (batch->calls[i] == NULL || batch->calls[i]->step == RLOCK__GIVING_UP) {
            return false;
        }
    }
    return true;
}

/* Whether the owner holds one of the locks already. Such a batch does not wait: it has the turn on
 * that hold, and the owner's other threads could not unlock it meanwhile. */
static bool is_nested(const struct rlock__batch *batch)
{
    for (size_t i = 0; i < batch->n; i++) {
        if (batch->calls[i] != NULL && batch->calls[i]->acquire.target > 1) {
            return true;
        }
    }
    return false;
}

/* The call waits for the sender of its batch: it has no timer. */
static void stand_aside(struct rlock__call *call)
{
    assert(call->request == NULL && call->acquire.look == NULL);
    rlock__call_step(call, RLOCK__QUEUED);
    rlock__timer_unset(&call->core->timers, &call->timer);
}

static void lead(struct rlock__call *call)
{
    struct rlock__batch *batch = call->acquire.batch;
    struct rlock__call *before = batch->sender;

    assert(call->step != RLOCK__GIVING_UP);
    assert(call->hold->turn == call);
    batch->sender = call;
    if (before != NULL && before != call) {
        rlock__acquire_withdraw(before, 0);
        if (before->step != RLOCK__GIVING_UP) {
            stand_aside(before);
        }
    }
}

/* ---- Replies ---- */

/* The index of the call whose lock is the reason for a refusal; n: there is none, because all calls
 * were granted or the reply is an error. */
static size_t reason(const struct rlock__reply *reply, size_t n)
{
    int64_t i = reply == NULL ? 0 : rlock__reply_int(reply, 0, 0);

    return i >= 1 && i <= (int64_t)n ? (size_t)i - 1 : n;
}

/* The part of the reply for the i-th call, in the form of a reply to that call's own script. */
static struct rlock__reply part(const struct rlock__reply *reply, size_t i, size_t n)
{
    assert(i < n);
    if (reason(reply, n) == i) {
        return (struct rlock__reply){.v = reply->v + 1, .n = reply->n - 1, .is_array = true};
    }
    return (struct rlock__reply){.v = reply->v + 1 + 2 * i, .n = 2, .is_array = true};
}

/* Gives the i-th call its part of the reply. */
static void hear(struct rlock__call *call, const struct rlock__reply *reply, size_t i, int64_t t0,
                 int64_t now)
{
    struct rlock__bytes text = rlock__reply_str(reply, 1);
    struct rlock__value value = {.type = RLOCK__REPLY_ERROR, .str = text.at, .len = text.len};
    struct rlock__reply its = {.v = &value, .n = 1};

    assert(call->acquire.batch->calls[i] == call);
    assert(call->request == NULL);
    call->acquire.batch->partial = rlock__reply_int(reply, 0, 0) == -1;
    if (rlock__reply_is_error(reply)) {
        rlock__acquire_answered(call, reply, t0, now);
        return;
    }
    if (!call->acquire.batch->partial) {
        its = part(reply, i, call->acquire.batch->n);
    }
    rlock__acquire_answered(call, &its, t0, now);
}

/* This call is not granted because of another one. The reply proves nothing about copies that went
 * down with an earlier connection. */
static void hear_nothing(struct rlock__call *call, int64_t now)
{
    assert(call->request == NULL);
    if (call->step == RLOCK__GIVING_UP) {
        rlock__acquire_late_refusal(call, now);
    } else {
        stand_aside(call);
    }
}

/* The server refused the batch because of where its keys lie, and did nothing. After a few such
 * refusals the batch ends as busy. */
static void hear_scattered(struct rlock__batch *batch, int64_t now)
{
    if (++batch->refusals >= REFUSALS && is_whole(batch) && batch->sender != NULL) {
        batch->is_scattered = true;
        rlock__acquire_refuse(batch->sender, RLOCK_EBUSY, now);
    }
}

static void on_answer(struct rlock__request *request, const struct rlock__reply *reply, int64_t now)
{
    struct rlock__batch *batch = request->subject;
    size_t n = batch == NULL ? 0 : batch->n, why = reason(reply, n);
    int64_t t0 = request->t0;
    bool garbled = request->garbled;
    bool scattered = reply != NULL && rlock__error_is(reply, RLOCK__SCATTERED);

    assert(batch == NULL || batch->request == request); /* attempt() set it */
    if (batch != NULL) {
        rlock__batch_note(batch, request);
    }
    if (reply != NULL) {
        (void)rlock__hop_learn(request->link, reply);
    }
    (void)rlock__request_free(request);
    for (size_t i = 0; i < n; i++) {
        struct rlock__call *call = batch->calls[i];

        if (call != NULL && garbled) {
            rlock__acquire_garbled(call, now);
        } else if (call != NULL && reply == NULL) {
            rlock__acquire_answered(call, NULL, t0, now);
        } else if (call != NULL && why == n) {
            hear(call, reply, i, t0, now);
        } else if (call != NULL && why != i) {
            hear_nothing(call, now);
        }
    }
    if (why < n && batch->calls[why] != NULL) { /* last, because it may ask again */
        hear(batch->calls[why], reply, why, t0, now);
    }
    if (batch != NULL && scattered) {
        hear_scattered(batch, now);
    }
}

/* ---- The attempt ---- */

static void add(struct rlock__cmd *all, const struct rlock__cmd *one)
{
    all->script = &rlock__script_multi_acquire;
    rlock__cmd_arg(all, rlock__bytes_of(one->script->name));
    rlock__cmd_num(all, one->n_keys);
    rlock__cmd_num(all, one->n_args);
    (void)rlock__buf_add(&all->keys, one->keys.data, one->keys.len);
    (void)rlock__buf_add(&all->args, one->args.data, one->args.len);
    all->n_keys += one->n_keys;
    all->n_args += one->n_args;
    all->parts++;
    all->keys.failed |= one->keys.failed;
    all->args.failed |= one->args.failed;
}

/* The attempt could not be submitted: undoes what it set. */
static void unask(struct rlock__batch *batch)
{
    batch->request = NULL;
    for (size_t i = 0; i < batch->n; i++) {
        batch->calls[i]->request = NULL;
        stand_aside(batch->calls[i]);
    }
}

static void attempt(struct rlock__batch *batch, struct rlock__call *sender, int64_t now)
{
    struct rlock__link *link = rlock__route(sender->spec);
    struct rlock__request *request =
        rlock__request_new(&link->server->core->requests, on_answer, batch);

    assert(batch->request == NULL);
    assert(batch->sender == sender);
    assert(batch->ready == batch->n && is_whole(batch)); /* each has its turn */
    if (request == NULL) {
        rlock__acquire_starve(sender, now);
        return;
    }
    batch->request = request;
    for (size_t i = 0; i < batch->n; i++) {
        struct rlock__call *call = batch->calls[i];
        struct rlock__cmd cmd = {0};

        assert((call->spec->ops->caps & RLOCK__CAP_TOGETHER) != 0);
        stand_aside(call);
        rlock__acquire_follow(call);
        rlock__acquire_asks(call, link, request, &cmd, now);
        add(&request->cmd, &cmd);
        rlock__cmd_fini(&cmd);
    }
    assert(request->cmd.parts == batch->n); /* the answer has a part for each */
    if (!rlock__submit(request, sender->spec, link, now)) {
        unask(batch);
        (void)rlock__request_free(request);
        rlock__acquire_starve(sender, now);
        return;
    }
    rlock__timer_set(&sender->core->timers, &sender->timer, rlock__acquire_until(sender));
}

/* If calls of this client wait for one of the locks already, or its queue pauses, the batch joins
 * that queue first. */
static bool stands_in_line(struct rlock__batch *batch, int64_t now)
{
    assert(batch->sender == NULL); /* the batch has asked for nothing yet */
    for (size_t i = 0; i < batch->n; i++) {
        struct rlock__call *call = batch->calls[i];

        if (call->acquire.wait_us != 0 && (call->spec->ops->caps & RLOCK__CAP_WAIT_QUEUE) != 0 &&
            rlock__queue_is_kept(call) && rlock__queue_join(call, now)) {
            lead(call);
            if (rlock__queue_is_head(call)) {
                rlock__acquire_go(call, now);
            } else {
                rlock__acquire_sleep(call, RLOCK__QUEUED, RLOCK__NEVER);
            }
            return true;
        }
    }
    return false;
}

void rlock__batch_ask(struct rlock__call *call, int64_t now)
{
    struct rlock__batch *batch = call->acquire.batch;

    assert(batch->sender == NULL || batch->sender == call);
    assert(call->hold->turn == call);
    if (batch->sender == NULL) { /* the call has just got its turn */
        assert(batch->ready < batch->n);
        stand_aside(call);
        if (++batch->ready < batch->n || !is_whole(batch) ||
            (!is_nested(batch) && stands_in_line(batch, now))) {
            return;
        }
        lead(call);
    }
    if (is_whole(batch)) {
        attempt(batch, call, now);
    }
}

/* ---- Waiting ---- */

void rlock__batch_tire(struct rlock__call *call, int64_t now)
{
    assert(call->acquire.batch->sender == call); /* other calls have no timer */
    assert(call->acquire.batch->request == NULL);
    rlock__acquire_describe(call, RLOCK_EBUSY, now);
    rlock__acquire_refuse(call, RLOCK_EBUSY, now);
}

void rlock__batch_busy(struct rlock__call *call, const struct rlock__answer *answer, int64_t now)
{
    struct rlock__batch *batch = call->acquire.batch;
    unsigned caps = call->spec->ops->caps;
    bool queues = call->acquire.wait_us != 0 && (caps & RLOCK__CAP_WAIT_QUEUE) != 0;

    assert(answer->outcome == RLOCK__BUSY);
    assert(batch->request == NULL);
    assert(call->step == RLOCK__ASKING && call->request == NULL);
    rlock__acquire_note_holder(call, answer, now);
    batch->rounds += !(batch->rechecks && batch->sender == call);
    batch->rechecks = false;
    lead(call);
    if (call->acquire.wait_us != 0 &&
        (batch->rounds > ROUNDS || now >= batch->until || is_nested(batch))) {
        rlock__batch_tire(call, now);
    } else if (queues && call->acquire.queue == NULL && !rlock__queue_join(call, now)) {
        rlock__acquire_starve(call, now);
    } else if (queues && !rlock__queue_is_head(call)) {
        rlock__acquire_sleep(call, RLOCK__QUEUED, RLOCK__NEVER);
    } else {
        batch->rechecks = call->channel == NULL && call->spec->ops->pause == NULL;
        rlock__acquire_busy(call, answer, now); /* subscribes, and then asks again */
    }
}

void rlock__batch_give_up(struct rlock__batch *batch, int code, int64_t now)
{
    assert(code != 0);
    for (size_t i = 0; i < batch->n; i++) {
        if (batch->calls[i] != NULL) {
            rlock__acquire_give_up(batch->calls[i], code, now);
        }
    }
}
