/* SPDX-License-Identifier: Apache-2.0 */
/* The requests of a release: sent, sent again, and given up at the end of the lease. */
#include <assert.h>

#include "lock/call/calls.h"
#include "lock/call/release.h"
#include "lock/common.h"
#include "lock/hold/hold.h"
#include "lock/hold/queue.h"
#include "lock/server/send.h"

#define NO_MEMORY ": no memory"

/* The last release has begun: no renewal may follow it, and the hold is not valid any more. */
static void begin_last(struct rlock__hold *hold, int64_t now)
{
    struct rlock__grant *grant = hold->grant;

    assert(hold->state != RLOCK__HOLD_NONE);
    assert(hold->busy && rlock__is_last(hold));
    grant->releasing = true;
    atomic_store(&hold->view->valid_until, 0);
    rlock__grant_mind_renewal(grant, now);
    rlock__grant_plan(grant);
    if (hold->detach == RLOCK__ATTACHED) { /* else the lock stays taken */
        rlock__queue_releasing(hold->spec->core, hold->spec, now);
    }
}

static bool send(struct rlock__hold *hold, int64_t now)
{
    struct rlock__grant *grant = hold->grant;
    uint32_t target = rlock__is_last(hold) ? 0 : hold->count - hold->leaves.n;
    bool renewed = target > 0 && rlock__hold_is_renewed(hold);
    int64_t lease =
        renewed ? rlock__grant_cut(grant, hold->spec->core->opts.renewed_lease_us, now) : 0;

    struct rlock__rest rest = {.number = grant->number, .count = target, .lease_us = lease};

    assert(grant->release == NULL && hold->leaves.n > 0);
    assert(hold->busy && hold->state != RLOCK__HOLD_NONE);
    assert(grant->number != 0);
    assert(!grant->releasing || target == 0); /* a last release stays the last one */
    if (rlock__has_units(hold->spec)) {
        rest.units = rlock__hold_units(hold, target);
        rest.most_units = rlock__units_most(hold);
        rlock__grant_changes(grant);
    }
    grant->release = hold->detach != RLOCK__ATTACHED
                         ? rlock__detach_send(hold, rlock__release_answered, now)
                         : rlock__release_send(hold->spec, rlock__grant_route(grant), &rest,
                                               rlock__release_answered, hold, now);
    grant->extends = renewed;
    if (grant->release != NULL && target == 0) {
        begin_last(hold, now);
    }
    return grant->release != NULL;
}

/* Nothing was sent for want of memory. The last release goes on without its caller. Any other level
 * is left to the last release. */
static void starve(struct rlock__hold *hold, int64_t now)
{
    struct rlock__grant *grant = hold->grant;

    if (hold->detach == RLOCK__DETACHING && !grant->releasing) {
        rlock__detach_fail(hold, RLOCK_ENOMEM, now);
        return;
    }
    if (rlock__is_last(hold) && !grant->releasing) {
        begin_last(hold, now);
    }
    if (grant->releasing) {
        rlock__release_leave_because(hold, RLOCK_EINDOUBT, NO_MEMORY,
                                     rlock__release_retry_at(grant, now), now);
        return;
    }
    if (hold->turn != NULL) {
        rlock__release_describe(hold->turn, RLOCK_EINDOUBT, NO_MEMORY);
    }
    rlock__release_drop_levels(hold, RLOCK_EINDOUBT, now);
}

/* Ends a release if its hold was lost before it was sent: the server does not have the hold, or the
 * recovery releases it. But the last release of a thread that has ended goes on. */
static bool end_if_lost(struct rlock__hold *hold, int64_t now)
{
    if (hold->state != RLOCK__HOLD_LOST ||
        (hold->grant->releasing && hold->reason == RLOCK_LOST_THREAD_EXITED)) {
        return false;
    }
    if (hold->detach == RLOCK__DETACHING) {
        rlock__detach_fail(hold, RLOCK_ELOST, now);
    } else {
        rlock__release_end_lost(hold, now);
    }
    return true;
}

void rlock__release_ask(struct rlock__call *call, int64_t now)
{
    struct rlock__hold *hold = call->hold;

    assert(hold->turn == call);
    assert(call->kind == RLOCK__RELEASE);
    assert(hold->leaves.n > 0);
    if (hold->grant->release == NULL && end_if_lost(hold, now)) {
        return;
    }
    if (hold->grant->release == NULL && !send(hold, now)) {
        starve(hold, now);
        return;
    }
    assert(hold->grant->release->subject == hold); /* the answer finds the hold, not the call */
    rlock__call_step(call, RLOCK__ASKING);
    call->acquire.attempts++;
    rlock__timer_set(&call->core->timers, &call->timer, call->deadline);
}

static void again(struct rlock__hold *hold, int64_t now)
{
    struct rlock__grant *grant = hold->grant;

    if (grant->release == NULL && end_if_lost(hold, now)) {
        return;
    }
    if (grant->release == NULL && hold->detach == RLOCK__DETACHING) {
        grant->due = grant->free_by; /* the owner decides: it detaches again, or unlocks */
    } else if (grant->release == NULL && !send(hold, now)) {
        grant->due = rlock__release_retry_at(grant, now);
    }
    rlock__grant_plan(grant);
}

void rlock__release_owed(struct rlock__hold *hold, int64_t now)
{
    assert(hold->turn == NULL && hold->owed.n > 0 && hold->grant->release == NULL);
    assert(hold->state == RLOCK__HOLD_HELD && hold->leaves.n == 0);
    hold->leaves = hold->owed;
    hold->owed = (struct rlock__levels){0};
    hold->grant->resent = false;
    if (send(hold, now)) {
        rlock__grant_plan(hold->grant);
    } else {
        starve(hold, now);
    }
}

static void expired(struct rlock__hold *hold, int64_t now)
{
    struct rlock__grant *grant = hold->grant;

    if (grant->release != NULL) {
        grant->release = rlock__abandon(grant->release);
    }
    rlock__hold_ended(hold, NULL, now);
    rlock__release_end(hold, RLOCK_EINDOUBT, now);
}

void rlock__release_due(struct rlock__hold *hold, int64_t now)
{
    assert(hold->grant->releasing);
    assert(hold->busy && hold->leaves.n > 0);
    rlock__grant_linger(hold->grant, false);
    if (now < hold->grant->free_by) {
        again(hold, now);
    } else {
        expired(hold, now);
    }
}
