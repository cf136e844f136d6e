/* SPDX-License-Identifier: Apache-2.0 */
/* The kinds of calls, and what all kinds share. */
#include <assert.h>
#include <utlist.h>

#include "lock/call/calls.h"
#include "lock/common.h"

static const struct kind {
    void (*begin)(struct rlock__call *call, int64_t now);
    void (*timer)(struct rlock__call *call, int64_t now);
    /* the call completes now, or after a grace */
    void (*give_up)(struct rlock__call *call, int code, int64_t now);
} kinds[] = {
    [RLOCK__ACQUIRE] = {rlock__acquire_begin, rlock__acquire_timer, rlock__acquire_give_up},
    [RLOCK__RELEASE] = {rlock__release_begin, rlock__release_timer, rlock__release_give_up},
    [RLOCK__COMMAND] = {rlock__command_begin, rlock__command_timer, rlock__command_give_up},
    [RLOCK__EXTEND] = {rlock__extend_begin, rlock__extend_timer, rlock__extend_give_up},
    [RLOCK__AWAIT] = {rlock__await_begin, rlock__await_timer, rlock__await_give_up},
};

static void on_call_timer(struct rlock__timer *timer, int64_t now)
{
    struct rlock__call *call = RLOCK__OF(struct rlock__call, timer, timer);

    assert(call->step != RLOCK__NEW && call->step != RLOCK__COMPLETE);
    kinds[call->kind].timer(call, now);
}

void rlock__call_give_up(struct rlock__call *call, int code, int64_t now)
{
    assert(code != 0);
    assert(call->step != RLOCK__COMPLETE);
    kinds[call->kind].give_up(call, code, now);
    assert(call->step == RLOCK__COMPLETE || call->step == RLOCK__GIVING_UP);
    assert(code != RLOCK_ECLOSED || call->step == RLOCK__COMPLETE); /* a close never waits */
}

void rlock__call_cancel(struct rlock__call *call, int64_t now)
{
    if (call->kind == RLOCK__ACQUIRE) {
        rlock__acquire_cancel(call, now);
    } else if (call->kind == RLOCK__AWAIT && call->step != RLOCK__COMPLETE) {
        rlock__await_give_up(call, RLOCK_ECANCELED, now);
    }
}

void rlock__call_begin(struct rlock__call *call, int64_t now)
{
    assert(call->step == RLOCK__NEW);
    assert(call->hold == NULL && call->request == NULL); /* everything but the inputs is zero */
    assert(!call->timer.set);
    assert(call->why == 0);
    call->timer.fire = on_call_timer;
    kinds[call->kind].begin(call, now);
}

void rlock__calls_fail_waiting(struct rlock__link *link, int64_t now)
{
    struct rlock__call *call, *after;

    assert(!link->pipeline.up);
    DL_FOREACH_SAFE2(link->server->core->calls, call, after, all.next)
    {
        bool looks = call->kind == RLOCK__ACQUIRE && call->acquire.look != NULL;
        const struct rlock__request *request = looks ? call->acquire.look : call->request;

        if (call->step == RLOCK__ASKING && call->kind != RLOCK__RELEASE && request != NULL &&
            request->link == link && !request->sent &&
            (link->final || (call->prompt && request->copies == 0))) {
            rlock__call_give_up(call, link->code, now);
        }
    }
}
