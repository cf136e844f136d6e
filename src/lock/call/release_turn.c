/* SPDX-License-Identifier: Apache-2.0 */
/* The turn of an unlock on its hold: how an unlock begins, waits for its turn, and gives up. */
#include <assert.h>
#include <stdio.h>

#include "lock/call/acquire.h"
#include "lock/call/calls.h"
#include "lock/call/pass.h"
#include "lock/call/release.h"
#include "lock/common.h"
#include "lock/hold/hold.h"

/* The owner tries again an unlock that ended in doubt: the level is not owed any more, as long as
 * this call waits. The call goes ahead of the owner's other calls in the line. */
static void take_over(struct rlock__call *call)
{
    struct rlock__hold *hold = call->hold;

    assert(call->step == RLOCK__LINED_UP && hold->turn != call);
    if (rlock__hold_left(hold) == 0 && hold->owed.n > hold->owed.members && !call->member) {
        hold->owed.n--;
        rlock__hold_first(call);
    }
}

static void find_nothing(struct rlock__call *call)
{
    rlock__release_describe(call, RLOCK_ENOTOWNER, "");
    rlock__call_complete(call, RLOCK_ENOTOWNER, NULL);
}

/* Whether earlier unlocks that did not wait have given up all levels. */
static bool is_surplus(const struct rlock__hold *hold, const struct rlock__call *call)
{
    return call->sends && hold->sent > 0 && rlock__hold_left(hold) == 0;
}

static void begin(struct rlock__call *call, int64_t now)
{
    struct rlock__hold *hold = rlock__hold_find(call->core, call->spec, call->owner);

    assert(call->step == RLOCK__NEW);
    assert(call->hold == NULL);
    call->deadline = now + call->core->opts.op_timeout_us;
    if (hold == NULL || hold->spec->ops != call->spec->ops || is_surplus(hold, call)) {
        find_nothing(call);
        return;
    }
    if (hold->turn == NULL && hold->grant->releasing) { /* joins a release without caller */
        if (!rlock__detach_joins(hold, call)) {
            find_nothing(call);
            return;
        }
        assert(hold->busy && hold->leaves.n > 0);
        call->hold = hold;
        hold->turn = call;
        call->acquire.asked_at = now;
        rlock__release_ask(call, now);
    } else if (rlock__hold_enter(hold, call)) {
        rlock__release_turn(call, now);
    } else {
        if (!rlock__detaches(call)) {
            take_over(call);
        }
        rlock__timer_set(&call->core->timers, &call->timer, call->deadline);
    }
}

/* Passes the hold on to a waiter of this process, if that is possible. Returns whether it did. */
static bool passes_on(struct rlock__hold *hold, int64_t now)
{
    struct rlock__call *heir = rlock__pass(hold, now);

    if (heir != NULL) {
        rlock__acquire_end(heir, 0, now);
    }
    return heir != NULL;
}

static void give_up_level(struct rlock__call *call, int64_t now)
{
    struct rlock__hold *hold = call->hold;
    struct rlock__grant *grant = hold->grant;

    call->deadline =
        rlock__min(call->deadline, grant->valid_until + call->core->opts.op_timeout_us / 2);
    call->acquire.begun_at = grant->granted_at;
    call->acquire.token = grant->token;
    call->acquire.asked_at = now;
    grant->resent = false;
    hold->leaves = rlock__levels_of(call);
    if (grant->is_waiting) { /* otherwise its timer decides on the renewal */
        rlock__hold_plan(hold);
    }
    rlock__release_ask(call, now);
}

/* Gives the hold to its text, if that can be done. */
static void detach(struct rlock__call *call, int64_t now)
{
    struct rlock__hold *hold = call->hold;
    const char *why;
    char more[128];
    int code = rlock__detach_refusal(call, &why);

    assert(hold->turn == call && hold->leaves.n == 0 && hold->owed.n == 0);
    if (code != 0) {
        (void)snprintf(more, sizeof(more), ": %s", why);
        rlock__release_describe(call, code, more);
        rlock__hold_plan(hold); /* while the call was in the line the hold seemed to end */
        rlock__release_end(hold, code, now);
        return;
    }
    assert(hold->count == 1 && hold->members == 0);
    hold->detach = RLOCK__DETACHING;
    give_up_level(call, now);
}

/* The hold stays for the next call of this client. */
static void linger(struct rlock__call *call, int64_t now)
{
    struct rlock__hold *hold = call->hold;
    struct rlock__grant *grant = hold->grant;

    hold->leaves = rlock__levels_of(call);
    grant->resent = false;
    grant->releasing = true;
    rlock__pass_linger(hold, now);
    rlock__release_return(hold, grant->due, now);
    assert(hold->is_hidden);
}

void rlock__release_turn(struct rlock__call *call, int64_t now)
{
    struct rlock__hold *hold = call->hold;
    struct rlock__grant *grant = hold->grant;

    assert(call->kind == RLOCK__RELEASE);
    assert(hold->turn == call);
    assert(call->step == RLOCK__NEW || call->step == RLOCK__LINED_UP);
    assert(hold->leaves.n == 0);
    assert(grant == NULL || grant->release == NULL);
    if (hold->state == RLOCK__HOLD_HELD && now >= grant->valid_until) {
        rlock__hold_lose(hold, RLOCK_LOST_EXPIRED, now);
    }
    if (call->core->closed) {
        rlock__release_end(hold, RLOCK_ECLOSED, now);
    } else if (hold->state == RLOCK__HOLD_NONE) {
        rlock__release_end(hold, RLOCK_ENOTOWNER, now);
    } else if (rlock__detaches(call)) {
        detach(call, now);
    } else if (!call->member && passes_on(hold, now)) {
        rlock__release_end(hold, 0, now);
    } else if (hold->spec->tuning->linger_us != 0 && rlock__pass_may_linger(hold, now)) {
        linger(call, now);
    } else {
        give_up_level(call, now);
    }
}

void rlock__release_begin(struct rlock__call *call, int64_t now)
{
    begin(call, now);
    if (!call->sends || call->step == RLOCK__COMPLETE) {
        return;
    }
    if (call->step == RLOCK__ASKING && call->hold->grant->release->sent) {
        rlock__release_return(call->hold, now, now);
    } else {
        rlock__release_give_up(call, RLOCK_EINDOUBT, now);
    }
}

/* When the lease of an owed level has ended at the latest. The call that has the turn may extend
 * that lease. */
static int64_t free_by(const struct rlock__hold *hold, int64_t now)
{
    struct rlock__grant *grant = hold->grant;
    const struct rlock__call *turn = hold->turn;

    rlock__grant_mind_renewal(grant, now);
    rlock__grant_mind_levels(grant, now);
    if (turn != NULL && turn->kind == RLOCK__ACQUIRE) {
        int64_t last = turn->deadline == RLOCK__NEVER ? now : rlock__max(turn->deadline, now);

        rlock__grant_may_last(grant, rlock__free_by(last, rlock__acquire_lease(turn, last)));
    }
    return grant->free_by;
}

/* The owner's call before this one takes too long. Gives up the level without a turn: the level is
 * owed from now on, and the hold is not renewed for it. Returns the call's code. */
static int owe(struct rlock__call *call, int64_t now)
{
    struct rlock__hold *hold = call->hold;
    struct rlock__levels levels = rlock__levels_of(call);
    char more[80];

    assert(call->step == RLOCK__LINED_UP && hold->turn != call);
    if (hold->count <= hold->leaves.n && hold->state != RLOCK__HOLD_HELD) {
        rlock__release_describe(call, RLOCK_ENOTOWNER, "");
        return RLOCK_ENOTOWNER;
    }
    if (hold->count > hold->leaves.n + hold->owed.n) {
        rlock__levels_add(&hold->owed, &levels);
    }
    if (hold->state == RLOCK__HOLD_LOST) {
        rlock__hold_drop_owed(hold);
        rlock__release_describe(call, RLOCK_ELOST, "");
        return RLOCK_ELOST;
    }
    assert(hold->state == RLOCK__HOLD_HELD);
    assert(hold->leaves.n + hold->owed.n <= hold->count);
    rlock__hold_show(hold);
    if (call->member) {
        (void)rlock__doubt_close(hold->grant->owed_doubt);
        hold->grant->owed_doubt = rlock__doubt_open(&call->doubt, free_by(hold, now));
    }
    (void)snprintf(more, sizeof(more), "; it is free in %lld ms",
                   (long long)rlock__ms_up(rlock__max(0, free_by(hold, now) - now)));
    rlock__say_free(call, free_by(hold, now));
    rlock__release_describe(call, RLOCK_EINDOUBT, more);
    return RLOCK_EINDOUBT;
}

void rlock__release_give_up(struct rlock__call *call, int code, int64_t now)
{
    char name[96];
    struct rlock__hold *hold = call->hold;
    const struct rlock__grant *grant = hold->grant;

    assert(code != 0);
    if (call->step == RLOCK__LINED_UP) {
        if (rlock__detaches(call) && code == RLOCK_EINDOUBT) {
            code = RLOCK_ETIMEDOUT; /* nothing has changed */
            rlock__say(call,
                       "lock %s: not detached: an earlier call of this owner goes on (server %s)",
                       rlock__spec_text(call->spec, name), call->link->server->address);
        } else if (code == RLOCK_EINDOUBT) {
            code = owe(call, now);
            if (code == RLOCK_EINDOUBT && call->sends && hold->sent > 0) {
                code = 0; /* it goes behind a release that is on its way */
                rlock__release_count_sent(hold);
            }
        } else {
            rlock__release_describe(call, code, "");
        }
        rlock__hold_unline(call, now);
        rlock__call_complete(call, code, NULL);
        return;
    }
    assert(hold->turn == call);
    assert(call->step == RLOCK__ASKING || call->step == RLOCK__SLEEPING);
    assert(call->step != RLOCK__ASKING || grant->release != NULL);
    if (grant->release == NULL && call->error != 0 && code == RLOCK_EINDOUBT &&
        !(grant->releasing && grant->resent)) { /* between two tries: the server did nothing */
        code = call->error;
    }
    if (code == RLOCK_EINDOUBT && hold->state == RLOCK__HOLD_LOST) { /* whatever the answer is */
        code = RLOCK_ELOST;
        rlock__release_describe(call, code, "");
    }
    if (grant->release == NULL && !grant->releasing) {
        rlock__release_drop_levels(hold, code, now);
    } else {
        rlock__release_leave(hold, code, now, now);
    }
    assert(call->step == RLOCK__COMPLETE);
}

void rlock__release_timer(struct rlock__call *call, int64_t now)
{
    if (now >= call->deadline) {
        rlock__release_give_up(call, RLOCK_EINDOUBT, now);
    } else {
        assert(call->step == RLOCK__SLEEPING); /* between two tries */
        rlock__release_ask(call, now);
    }
}
