/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The line of a hold: its owner's calls on it take turns, unlocks as well as acquisitions. Levels
 * that unlocks gave up without a turn are released before the next call goes on.
 */
#include <assert.h>
#include <utlist.h>

#include "lock/call/calls.h"
#include "lock/common.h"
#include "lock/hold/hold.h"

bool rlock__hold_enter(struct rlock__hold *hold, struct rlock__call *call)
{
    assert(call->hold == NULL);
    call->hold = hold;
    if (hold->busy) {
        rlock__call_step(call, RLOCK__LINED_UP);
        DL_APPEND(hold->line, call);
        hold->lined += call->kind == RLOCK__RELEASE;
        rlock__hold_plan(hold);
        return false;
    }
    assert(hold->turn == NULL && hold->line == NULL && hold->lined == 0);
    assert(hold->leaves.n == 0 && hold->owed.n == 0);
    hold->busy = true;
    hold->turn = call;
    return true;
}

static void take_out(struct rlock__call *call)
{
    struct rlock__hold *hold = call->hold;

    assert(call->step == RLOCK__LINED_UP && hold->line != NULL);
    assert(call->kind != RLOCK__RELEASE || hold->lined > 0);
    DL_DELETE(hold->line, call);
    hold->lined -= call->kind == RLOCK__RELEASE;
}

void rlock__hold_turn(struct rlock__call *call)
{
    assert(call->hold->busy && call->hold->turn == NULL);
    take_out(call);
    call->hold->turn = call;
}

void rlock__hold_first(struct rlock__call *call)
{
    assert(call->step == RLOCK__LINED_UP && call->hold->turn != call);
    DL_DELETE(call->hold->line, call);
    DL_PREPEND(call->hold->line, call);
}

void rlock__hold_unline(struct rlock__call *call, int64_t now)
{
    struct rlock__hold *hold = call->hold;
    bool next = (call->why & RLOCK__TURN) != 0;

    assert(hold->turn != call);
    assert(!next || (hold->busy && hold->turn == NULL)); /* rlock__hold_leave() chose it */
    rlock__unready(call, RLOCK__TURN);
    take_out(call);
    call->hold = NULL;
    rlock__hold_plan(hold);
    if (next) {
        rlock__hold_leave(hold, now);
    }
}

/* Releases the levels that unlocks left owed, before the next call goes on. Returns whether it
 * began that. */
static bool releases_owed(struct rlock__hold *hold, int64_t now)
{
    if (hold->state != RLOCK__HOLD_HELD || hold->owed.n == 0) {
        return false;
    }
    assert(hold->grant != NULL);
    assert(hold->turn == NULL && hold->leaves.n == 0);
    if (now >= hold->grant->valid_until) {
        rlock__hold_lose(hold, RLOCK_LOST_EXPIRED, now);
    }
    if (hold->state != RLOCK__HOLD_HELD || hold->spec->core->closed) {
        return false;
    }
    rlock__release_owed(hold, now);
    return true;
}

void rlock__hold_leave(struct rlock__hold *hold, int64_t now)
{
    assert(hold->busy);
    assert(hold->grant == NULL || hold->grant->release == NULL); /* no release is in flight */
    hold->turn = NULL;
    hold->leaves = (struct rlock__levels){0};
    if (hold->grant != NULL) {
        (void)rlock__doubt_close(hold->grant->doubt);
        hold->grant->doubt = hold->grant->owed_doubt;
        hold->grant->owed_doubt = NULL;
    }
    if (releases_owed(hold, now)) {
        return;
    }
    if (hold->grant != NULL) {
        hold->grant->doubt = rlock__doubt_close(hold->grant->doubt);
    }
    if (hold->state == RLOCK__HOLD_LOST && hold->count == 0) {
        rlock__hold_over(hold);
    }
    if (hold->line != NULL) { /* the row stays busy for the next call */
        rlock__ready(hold->line, RLOCK__TURN);
        return;
    }
    assert(hold->lined == 0);
    assert(hold->owed.n == 0 || hold->spec->core->closed); /* all owed levels are released */
    hold->busy = false;
    if (hold->spec->core->closed || hold->is_ended) {
        rlock__hold_lose(hold, hold->is_ended ? RLOCK_LOST_OWNER_ENDED : RLOCK_LOST_CLOSED, now);
    }
    if (hold->state == RLOCK__HOLD_NONE || hold->spec->core->closed || hold->is_ended ||
        (hold->state == RLOCK__HOLD_LOST && hold->reason == RLOCK_LOST_THREAD_EXITED)) {
        rlock__hold_free(hold);
    }
}
