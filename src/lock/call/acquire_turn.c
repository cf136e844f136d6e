/* SPDX-License-Identifier: Apache-2.0 */
/* How an acquisition begins: its turn on the hold, and conflicts with the owner's other holds. */
#include "lock/call/acquire.h"

#include <assert.h>

#include "lock/call/calls.h"
#include "lock/call/explain.h"
#include "lock/call/pass.h"
#include "lock/common.h"
#include "lock/hold/hold.h"
#include "lock/hold/queue.h"
#include "lock/hold/recovery.h"
#include "lock/server/route.h"
#include "lock/server/stock.h"

void rlock__acquire_begin(struct rlock__call *call, int64_t now)
{
    struct rlock__core *core = call->core;
    int64_t once =
        call->acquire.timeout_us != 0 ? call->acquire.timeout_us : core->opts.op_timeout_us;
    int64_t wait = call->acquire.wait_us == 0 ? once : call->acquire.wait_us;
    struct rlock__hold *hold;

    assert(call->step == RLOCK__NEW);
    assert(call->hold == NULL);
    assert(call->view == NULL);
    assert(call->acquire.attempts == 0);
    assert(call->acquire.ticket == NULL);
    if (call->cancelled) {
        rlock__acquire_describe(call, RLOCK_ECANCELED, now);
        rlock__acquire_end(call, RLOCK_ECANCELED, now);
        return;
    }
    hold = rlock__hold_get(core, call->spec, call->owner);
    call->acquire.begun_at = now;
    call->acquire.timeout_us = once;
    call->deadline = call->acquire.wait_us < 0 ? RLOCK__NEVER : rlock__later(now, wait);
    assert(call->deadline > now); /* even with wait 0 there is time for an answer */
    if (hold == NULL) {
        rlock__call_complete(call, RLOCK_ENOMEM, "no memory");
        return;
    }
    if (rlock__hold_enter(hold, call)) {
        rlock__acquire_turn(call, now);
    } else {
        if (rlock__explains(call)) {
            rlock__explain(call, now, "waits for an earlier call of its owner");
        }
        rlock__timer_set(&core->timers, &call->timer, rlock__acquire_until(call));
    }
}

static void ask_for_level(struct rlock__call *call, int64_t now)
{
    struct rlock__hold *hold = call->hold;

    assert(hold->state == RLOCK__HOLD_HELD);
    call->number = hold->grant->number;
    call->acquire.target = hold->count + 1;
    assert(call->number != 0);
    if (!rlock__hold_prepare(call)) {
        rlock__acquire_starve(call, now);
        return;
    }
    rlock__recovery_supersede(call);
    rlock__acquire_attempt(call, now);
}

/* The owner holds the lock already. Asks for one level more at once, even if others wait. */
static void turn_nested(struct rlock__call *call, int64_t now)
{
    struct rlock__hold *hold = call->hold;

    assert(hold->state != RLOCK__HOLD_NONE && hold->count > 0);
    if (hold->state == RLOCK__HOLD_HELD && now >= hold->grant->valid_until) {
        rlock__hold_lose(hold, RLOCK_LOST_EXPIRED, now);
    }
    if (hold->state == RLOCK__HOLD_LOST) {
        rlock__acquire_describe(call, RLOCK_ELOST, now);
        rlock__acquire_end(call, RLOCK_ELOST, now);
    } else if ((call->spec->ops->caps & RLOCK__CAP_REENTRANT) == 0 ||
               call->spec->tuning->no_reentry) {
        rlock__acquire_describe(call, RLOCK_EREACQUIRE, now);
        rlock__acquire_end(call, RLOCK_EREACQUIRE, now);
    } else {
        ask_for_level(call, now);
    }
}

/* Whether the hold is held, and its owner has not given it up. */
static bool stands(const struct rlock__hold *hold)
{
    return hold->state == RLOCK__HOLD_HELD && !hold->grant->releasing &&
           rlock__hold_left(hold) != 0;
}

/* Returns the code if a hold of the owner under this name forbids the call; otherwise 0. */
static int conflict(const struct rlock__call *call)
{
    const struct rlock_ops *ops = call->spec->ops;
    const struct rlock__hold *hold = call->hold;

    if (call->acquire.units > 1 &&
        call->acquire.units > RLOCK__UNITS_MAX - rlock__hold_units(hold, hold->count)) {
        return RLOCK_EINVAL;
    }
    if (hold->state != RLOCK__HOLD_NONE &&
        (call->acquire.adopts != NULL || hold->spec->ops != ops)) {
        return RLOCK_EINVAL;
    }
    for (const char *side = "xrw"; *side != '\0'; side++) {
        const struct rlock__hold *other =
            *side == ops->side ? NULL
                               : rlock__hold_find_side(call->core, call->spec, call->owner, *side);

        if (other == NULL || !stands(other)) {
            continue;
        }
        if (call->acquire.adopts != NULL || *side != ops->other_side) {
            return RLOCK_EINVAL;
        }
        if ((ops->caps & RLOCK__CAP_NO_UPGRADE) != 0 && hold->state == RLOCK__HOLD_NONE) {
            return RLOCK_EDEADLOCK; /* the owner would wait for itself */
        }
    }
    return 0;
}

void rlock__acquire_turn(struct rlock__call *call, int64_t now)
{
    struct rlock__core *core = call->core;
    int code = core->closed ? RLOCK_ECLOSED : conflict(call);

    assert(call->step == RLOCK__NEW || call->step == RLOCK__LINED_UP);
    assert(call->hold->turn == call && call->hold->busy);
    assert(call->acquire.target == 0 && call->number == 0); /* the call has asked for nothing yet */
    assert(call->acquire.queue == NULL && call->channel == NULL);
    if (code != 0) {
        rlock__acquire_describe(call, code, now);
        rlock__acquire_end(call, code, now);
        return;
    }
    if (call->link->pipeline.up &&
        rlock__server_is_young(call->link->server, call->acquire.min_uptime_us, now)) {
        rlock__acquire_describe(call, RLOCK_ERESTARTED, now);
        rlock__acquire_end(call, RLOCK_ERESTARTED, now);
        return;
    }
    if (rlock__acquire_is_cut_off(call, now)) {
        return;
    }
    if (call->hold->state != RLOCK__HOLD_NONE) {
        turn_nested(call, now);
        return;
    }
    call->acquire.target = 1;
    if (rlock__pass_retake(call, now)) {
        rlock__acquire_end(call, 0, now);
        return;
    }
    if (call->acquire.adopts != NULL || !rlock__stock_take(call)) {
        call->number = ++core->last_number;
    }
    if (call->acquire.adopts != NULL) { /* the text has the lock, even if calls wait here */
        rlock__acquire_attempt(call, now);
    } else if (call->acquire.wait_us == 0 || call->acquire.batch != NULL ||
               (call->spec->ops->caps & RLOCK__CAP_WAIT_QUEUE) == 0) {
        rlock__acquire_go(call, now);
    } else if (!rlock__queue_join(call, now)) {
        rlock__acquire_starve(call, now);
    } else if (rlock__queue_is_head(call)) {
        rlock__acquire_go(call, now);
    } else {
        if (rlock__explains(call)) {
            rlock__explain(call, now, "waits behind other calls of this client");
        }
        rlock__acquire_sleep(call, RLOCK__QUEUED, call->deadline);
    }
}
