/* SPDX-License-Identifier: Apache-2.0 */
/* Decides whether a grant counts, or is given back. */
#include <assert.h>

#include "lock/call/acquire.h"
#include "lock/call/pass.h"
#include "lock/common.h"
#include "lock/hold/hold.h"
#include "lock/hold/recovery.h"
#include "lock/server/ack.h"
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

/* The call has the lock, and is complete. */
static void have(struct rlock__call *call, uint64_t token, int64_t t0, int64_t lease, int64_t now)
{
    bool alone;

    call->acquire.token = call->acquire.target == 1 ? token : call->hold->grant->token;
    alone = rlock__proof_granted(call, now);
    rlock__hold_granted(call->hold, call, t0, lease, now);
    if (!alone) {
        rlock__grant_verify(call->hold->grant, now);
    }
    call->hold->grant->is_awaited |= call->acquire.contended; /* others may still wait */
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

void rlock__acquire_granted(struct rlock__call *call, uint64_t token, int64_t t0, int64_t now)
{
    int64_t lease = rlock__acquire_lease(call, t0);

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
    have(call, token, t0, lease, now);
}

/* Whether the grant may count. If not, the call asks, and the server extends the grant. */
static bool counts(struct rlock__call *call, int64_t now)
{
    const struct rlock__link *link = rlock__route(call->spec);
    int64_t until = rlock__valid_until(call->core, call->acquire.entry->entered_at, RLOCK__PUSH_US);

    return until - now >= RLOCK__PUSH_US / 2 && call->link == link && link->pipeline.up &&
           call->channel != NULL && call->channel->server == link->server &&
           rlock__acks_needed(link->server) == 0 && !rlock__ticket_is_open(call->acquire.ticket) &&
           rlock__pass_awaited(call, now) == NULL && rlock__hold_prepare(call);
}

bool rlock__acquire_pushed(struct rlock__call *call, int64_t now)
{
    struct rlock__entry *entry = call->acquire.entry;
    struct rlock__hold *hold = call->hold;

    if (entry == NULL || !entry->is_pushed) {
        return false;
    }
    entry->is_pushed = false;
    assert(call->request == NULL && call->acquire.target == 1 && call->acquire.lease_us == 0);
    assert(entry->entered_at != 0 && entry->entered_at <= now);
    if (!counts(call, now)) {
        return false;
    }
    rlock__call_step(call, RLOCK__ASKING);
    have(call, entry->token, entry->entered_at, RLOCK__PUSH_US, now);
    call->acquire.lease_granted_us = call->core->opts.renewed_lease_us; /* that it asked for */
    rlock__grant_pushed(hold->grant, now);
    return true;
}
