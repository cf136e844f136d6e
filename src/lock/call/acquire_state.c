/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of an acquisition: until when a call goes on, its sleep, and its copies. All other
 * files of the acquisition use this one, and it calls none of them.
 */
#include <assert.h>
#include <stdio.h>

#include "lock/call/acquire.h"
#include "lock/common.h"
#include "lock/hold/ticket.h"
#include "lock/server/tracked.h"

/* ---- Until when ---- */

bool rlock__acquire_is_behind(const struct rlock__call *call)
{
    return call->acquire.attempts == 0 &&
           (call->step == RLOCK__QUEUED || call->step == RLOCK__SLEEPING ||
            call->step == RLOCK__SUBSCRIBING || call->step == RLOCK__PAUSING);
}

/* Whether the call waits for another call of this client, and can ask the server when its wait
 * ends. A batch cannot ask from there. On a client that was never connected it has asked about none
 * of its locks, so it waits for the server. */
static bool waits_behind(const struct rlock__call *call)
{
    return rlock__acquire_is_behind(call) &&
           (call->acquire.batch == NULL || call->core->last_gen != 0);
}

/* The end of the call's wait for the holder. As long as the server has named no holder, the call
 * waits for the server too. */
static int64_t wait_until(const struct rlock__call *call)
{
    if (call->acquire.wait_us <= 0 || call->acquire.contended || waits_behind(call)) {
        return call->deadline;
    }
    return rlock__max(call->deadline, rlock__later(call->deadline - call->acquire.wait_us,
                                                   call->acquire.timeout_us));
}

int64_t rlock__acquire_last(const struct rlock__call *call)
{
    assert(call->acquire.timeout_us > 0); /* rlock__acquire_begin() set the default */
    return call->acquire.wait_us == 0 ? call->deadline
                                      : rlock__later(call->deadline, call->acquire.timeout_us);
}

int64_t rlock__acquire_until(const struct rlock__call *call)
{
    const struct rlock__request *request =
        call->acquire.look != NULL ? call->acquire.look : call->request;
    int64_t until = wait_until(call), last = rlock__acquire_last(call), most;

    assert(call->acquire.look == NULL || call->request == NULL);
    if (call->step == RLOCK__ASKING && rlock__ack_is_open(&call->acquire.ack)) {
        return last;
    }
    if (call->step != RLOCK__ASKING || request == NULL || !request->sent) {
        return until;
    }
    most = rlock__patience_us(&request->link->pipeline.patience, call->acquire.timeout_us);
    return rlock__max(until, rlock__min(rlock__later(request->t0, most), last));
}

bool rlock__acquire_may_try(const struct rlock__call *call, int64_t now)
{
    return call->acquire.attempts == 0 || now < wait_until(call);
}

void rlock__acquire_sleep(struct rlock__call *call, enum rlock__step step, int64_t at)
{
    int64_t until;

    assert(step == RLOCK__QUEUED || step == RLOCK__SLEEPING || step == RLOCK__SUBSCRIBING ||
           step == RLOCK__PAUSING);
    assert(call->request == NULL && call->acquire.look == NULL);
    assert(!rlock__ack_is_open(&call->acquire.ack));
    assert(call->hold->turn == call);
    rlock__call_step(call, step);
    if (call->channel != NULL && step != RLOCK__QUEUED) {
        rlock__tracked_rest(call->channel);
    }
    until = rlock__acquire_until(call);
    if (call->acquire.batch != NULL) { /* only the sender has a timer */
        until = call->acquire.batch->sender == call ? rlock__min(until, call->acquire.batch->until)
                                                    : RLOCK__NEVER;
        at = call->acquire.batch->sender == call ? at : RLOCK__NEVER;
    }
    rlock__timer_set(&call->core->timers, &call->timer, rlock__min(at, until));
    /* a call that sleeps has a timer, or waits for the sender of its batch */
    assert(call->timer.set || step == RLOCK__QUEUED ||
           (call->acquire.batch != NULL && call->acquire.batch->sender != call));
}

/* ---- Holder and copies ---- */

void rlock__acquire_note_holder(struct rlock__call *call, const struct rlock__answer *answer,
                                int64_t now)
{
    struct rlock__texts *texts = rlock__texts(call);

    call->acquire.contended = true;
    if (texts != NULL) {
        (void)snprintf(texts->facts.holder, sizeof(texts->facts.holder), "%.*s",
                       (int)rlock__min((int64_t)answer->holder.len, 127), answer->holder.at);
        texts->facts.free_at = answer->ttl_ms > 0 ? now + answer->ttl_ms * RLOCK__MS : 0;
    }
}

void rlock__acquire_note(struct rlock__call *call, const struct rlock__request *request)
{
    /* the call that takes back the request of its batch notes it twice */
    assert(call->request == request || (call->request == NULL && call->acquire.batch != NULL));
    assert(request->lost_gen <= request->gen);
    call->request = NULL;
    call->acquire.sent_at = request->t0;
    call->acquire.gen = request->gen;
    if (request->lost_gen != 0 && call->step != RLOCK__GIVING_UP) { /* else recovery has it */
        rlock__in_flight_add_lost(&call->acquire.ticket->in_flight, call->link, request->lost_gen);
    }
}

int rlock__acquire_passing_code(const struct rlock__call *call, int code)
{
    return call->acquire.wait_us != 0 && code != RLOCK_ENOTREPLICATED ? RLOCK_ETIMEDOUT : code;
}

/* ---- Its batch ---- */

void rlock__batch_note(struct rlock__batch *batch, const struct rlock__request *request)
{
    assert(batch->request == request);
    batch->request = NULL;
    for (size_t i = 0; i < batch->n; i++) {
        if (batch->calls[i] != NULL) {
            rlock__acquire_note(batch->calls[i], request);
        }
    }
}

void rlock__batch_leave(struct rlock__call *call)
{
    struct rlock__batch *batch = call->acquire.batch;
    bool empty = true;

    assert(call->request == NULL);
    for (size_t i = 0; i < batch->n; i++) {
        batch->calls[i] = batch->calls[i] == call ? NULL : batch->calls[i];
        empty = empty && batch->calls[i] == NULL;
    }
    if (batch->sender == call) {
        batch->sender = NULL;
    }
    if (empty && batch->request != NULL) {
        batch->request->subject = NULL;
        batch->request = NULL;
    }
}
