/* SPDX-License-Identifier: Apache-2.0 */
/* Decides whether a grant counts, or is given back. */
#include <assert.h>

#include "lock/call/acquire.h"
#include "lock/common.h"
#include "lock/hold/hold.h"
#include "lock/hold/recovery.h"
#include "lock/server/channel.h"
#include "lock/server/route.h"

bool rlock__acquire_is_too_young(const struct rlock__call *call, int64_t now)
{
    return rlock__server_is_young(call->link->server, call->acquire.min_uptime_us, now);
}

/* Gives back what the attempt took, or may have taken, and tries again at that time with a new
 * number. Without time for that the call ends with the code. */
static void retry_at_time(struct rlock__call *call, int code, int64_t at, int64_t now)
{
    assert(call->step != RLOCK__GIVING_UP && call->acquire.ticket != NULL);
    assert(call->request == NULL && call->acquire.look == NULL); /* nothing else is in flight */
    assert(!rlock__ack_is_open(&call->acquire.ack));
    if (call->acquire.target > 1 || !rlock__acquire_may_try(call, now) ||
        call->acquire.batch != NULL || call->acquire.adopts != NULL) {
        rlock__acquire_undo(call, code, now);
        return;
    }
    rlock__acquire_heard(call, now);
    rlock__recovery_doubt(rlock__recover_attempt(call, 0, false, now), call);
    if (call->channel != NULL) { /* the channel may be the old number's own */
        rlock__channel_leave(call);
    }
    call->acquire.enqueued = false;
    call->number = ++call->core->last_number; /* the old one is retired by its release */
    rlock__acquire_sleep(call, RLOCK__SLEEPING, at);
    if (at > now) {
        call->error = rlock__acquire_passing_code(call, code);
    } else {
        rlock__ready(call, RLOCK__AGAIN);
    }
}

/* After a pause: the slot may have moved by then, or the replicas may have caught up. */
void rlock__acquire_retry(struct rlock__call *call, int code, int64_t now)
{
    retry_at_time(call, code, now + rlock__backoff(call->core, call->failures++), now);
}

void rlock__acquire_granted(struct rlock__call *call, uint64_t token, int64_t t0, int64_t now)
{
    int64_t lease = rlock__acquire_lease(call, t0);
    bool alone;

    assert(call->hold != NULL && call->hold->turn == call);
    assert(call->step == RLOCK__ASKING);
    assert(!rlock__ack_is_open(&call->acquire.ack));
    assert(call->view == NULL); /* a call is granted once */
    if (!RLOCK__ENSURE(call->core, t0 <= now && call->number != 0)) {
        rlock__acquire_describe(call, RLOCK_EINDOUBT, now);
        rlock__acquire_undo(call, RLOCK_EINDOUBT, now);
        return;
    }
    if (call->acquire.target > 1 && now >= call->hold->grant->valid_until) {
        rlock__hold_lose(call->hold, RLOCK_LOST_EXPIRED, now);
    }
    if (call->acquire.target > 1 &&
        call->hold->state != RLOCK__HOLD_HELD) { /* lost meanwhile, and lost it stays */
        rlock__acquire_describe(call, RLOCK_ELOST, now);
        rlock__acquire_end(call, RLOCK_ELOST, now);
        return;
    }
    if (rlock__acquire_is_too_young(call, now)) {
        rlock__acquire_describe(call, RLOCK_ERESTARTED, now);
        rlock__acquire_undo(call, RLOCK_ERESTARTED, now);
        return;
    }
    if (now >= rlock__valid_until(call->core, t0, lease)) { /* granted, and over already */
        int code = call->acquire.wait_us == 0 ? RLOCK_ECONN : RLOCK_ETIMEDOUT;

        rlock__acquire_describe(call, code, now);
        if (now >= call->deadline || call->acquire.wait_us == 0) {
            rlock__acquire_undo(call, code, now);
        } else {
            retry_at_time(call, code, now, now);
        }
        return;
    }
    call->acquire.token = call->acquire.target == 1 ? token : call->hold->grant->token;
    alone = rlock__proof_granted(call, now);
    rlock__hold_granted(call->hold, call, t0, lease, now);
    if (!alone) {
        rlock__grant_verify(call->hold->grant, now);
    }
    call->acquire.valid_until = call->hold->grant->valid_until;
    call->acquire.lease_granted_us = lease;
    call->count = call->acquire.target;
    call->view = rlock__view_ref(call->hold->view);
    assert(call->hold->state == RLOCK__HOLD_HELD);
    assert(call->hold->grant->number == call->number); /* the number that was asked for */
    assert(call->hold->count == call->acquire.target);
    assert(call->acquire.valid_until > now);
    rlock__acquire_end(call, 0, now);
}
