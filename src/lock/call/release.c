/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The release of a level. It belongs to the hold: its call has a deadline, but the release of the
 * last level goes on without the call until the server has answered or the lease has ended. The
 * state is in these members of the hold and its grant:
 *
 * state     what is true                                          entered by         left by
 * none      leaves.n = 0                                          release_end        release_turn,
 *                                                                                    release_owed
 * sent      grant.release is the request. hold.turn is the call   send               on_answer
 *           that waits for the answer; NULL: it has returned
 * refused   grant.release = NULL. The call sleeps until it        on_refused         release_timer,
 *           asks again                                                               _give_up
 * left      grant.release = NULL, hold.turn = NULL. The release   release_leave      release_due,
 *           is sent again when grant.timer fires                                     release_begin
 *
 * If no level remains, grant.releasing is set: the hold is neither valid nor renewed any more.
 * An unlock gives up its level, whatever it returns. One that gets no turn in time leaves the level
 * to the hold, which then owes it: it releases the level when the turn is free.
 */
#include <assert.h>
#include <stdio.h>

#include "lock/call/calls.h"
#include "lock/call/release.h"
#include "lock/common.h"
#include "lock/hold/hold.h"
#include "lock/hold/queue.h"
#include "lock/server/classify.h"
#include "lock/server/hop.h"
#include "lock/server/send.h"

#define NO_MEMORY ": no memory"

void rlock__release_describe(struct rlock__call *call, int code, const char *more)
{
    char name[96];

    assert(code != 0);
    rlock__say(call, "lock %s: %s%s (server %s)", rlock__spec_text(call->spec, name),
               rlock_strerror(code), more, call->link->server->address);
}

/* Whether the release leaves no level. */
static bool is_last(const struct rlock__hold *hold)
{
    return hold->count <= hold->leaves.n;
}

void rlock__release_end(struct rlock__hold *hold, int code, int64_t now)
{
    struct rlock__call *call = hold->turn;

    assert(call == NULL || (call->kind == RLOCK__RELEASE && call->hold == hold));
    if (call != NULL) {
        call->count = rlock__hold_left(hold);
        if (code != 0 && !call->described) {
            rlock__release_describe(call, code, "");
        }
        rlock__call_complete(call, code, NULL);
    }
    rlock__hold_leave(hold, now);
}

/* One unlock of a lost hold: needs no I/O. */
static void end_lost(struct rlock__hold *hold, int64_t now)
{
    char more[64];

    assert(hold->state == RLOCK__HOLD_LOST);
    assert(hold->grant->release == NULL);
    assert(hold->leaves.n > 0);
    (void)snprintf(more, sizeof(more), ": %s", rlock_reason_text(hold->reason));
    if (hold->turn != NULL) {
        rlock__release_describe(hold->turn, RLOCK_ELOST, more);
    }
    hold->grant->releasing = false;
    if (is_last(hold)) {
        rlock__hold_over(hold);
    } else {
        rlock__hold_drop_levels(hold);
    }
    rlock__release_end(hold, RLOCK_ELOST, now);
}

static void on_gone(struct rlock__hold *hold, const struct rlock__answer *answer, int64_t now)
{
    struct rlock__grant *grant = hold->grant;

    assert(answer->outcome == RLOCK__GONE);
    if (grant->resent && !grant->failed_over && is_last(hold) && now < grant->valid_until) {
        rlock__hold_ended(hold, NULL, now);
        rlock__release_end(hold, 0, now);
        return;
    }
    grant->releasing = false;
    rlock__hold_gone(hold, answer->taken, now);
    end_lost(hold, now);
}

static void on_done(struct rlock__hold *hold, const struct rlock__answer *answer, int64_t t0,
                    int64_t now)
{
    struct rlock__core *core = hold->spec->core;
    struct rlock__grant *grant = hold->grant;
    char name[96];

    assert(answer->outcome == RLOCK__DONE);
    /* no level came or went since send() */
    assert(hold->state == RLOCK__HOLD_LOST || grant->releasing == is_last(hold));
    if (answer->announcement_refused) {
        rlock__note(core, RLOCK_LOG_WARNING,
                    rlock__about("release", grant->link->server->address, RLOCK_EPERM),
                    "lock %s: released, but its waiters were not told: %s (server %s)",
                    rlock__spec_text(hold->spec, name), "no permission to publish on its channel",
                    grant->link->server->address);
    }
    if (!is_last(hold)) {
        int64_t lease = rlock__grant_cut(grant, core->opts.renewed_lease_us, t0);

        grant->uneven = false;
        rlock__hold_drop_levels(hold);
        if (grant->extends && hold->state == RLOCK__HOLD_HELD && now < grant->valid_until) {
            rlock__grant_extended(grant, t0, lease, now);
        }
        rlock__grant_plan(grant);
    } else {
        rlock__hold_ended(hold, answer, now);
    }
    rlock__release_end(hold, 0, now);
}

/* When the last release is tried again after a failure. */
static int64_t retry_at(struct rlock__grant *grant, int64_t now)
{
    return now + rlock__backoff(grant->hold->spec->core, grant->failures++);
}

/* rlock__release_leave() with a text that goes with the code. */
static void leave(struct rlock__hold *hold, int code, const char *why, int64_t due, int64_t now)
{
    struct rlock__grant *grant = hold->grant;
    struct rlock__call *call = hold->turn;
    char more[64];

    assert(code != 0);
    assert(due >= now);
    assert(call == NULL || call->kind == RLOCK__RELEASE);
    assert(grant->releasing || grant->release != NULL); /* otherwise nothing ends the turn */
    rlock__grant_mind_renewal(grant, now);
    rlock__grant_mind_levels(grant, now);
    (void)snprintf(more, sizeof(more), "%s; it is free in %lld ms", why,
                   (long long)rlock__ms_up(rlock__max(0, grant->free_by - now)));
    grant->due = due;
    rlock__grant_doubt(grant, call);
    hold->turn = NULL;
    rlock__hold_show(hold);
    rlock__grant_plan(grant);
    assert(!grant->releasing || grant->timer.set); /* an answer may never come */
    if (call != NULL) {
        rlock__say_free(call, grant->free_by);
        if (code == RLOCK_EINDOUBT || !call->described) {
            rlock__release_describe(call, code, more);
        }
        rlock__call_complete(call, code, NULL);
    }
}

void rlock__release_leave(struct rlock__hold *hold, int code, int64_t due, int64_t now)
{
    leave(hold, code, "", due, now);
}

void rlock__release_drop_levels(struct rlock__hold *hold, int code, int64_t now)
{
    assert(code != 0);
    assert(hold->grant->release == NULL && !hold->grant->releasing);
    hold->grant->uneven = true;
    rlock__hold_drop_levels(hold);
    rlock__grant_plan(hold->grant);
    rlock__release_end(hold, code, now);
}

/* A refused copy changed nothing, unless it was aborted halfway. An earlier copy may have run. */
static void on_refused(struct rlock__hold *hold, const struct rlock__reply *reply, int64_t now)
{
    struct rlock__class class = rlock__core_classify(hold->spec->core, reply);
    struct rlock__grant *grant = hold->grant;
    struct rlock__call *call = hold->turn;
    char name[96], why[RLOCK__REFUSAL_SIZE];

    assert(class.code != 0);
    grant->resent |= (class.is & RLOCK__ABORTED) != 0;
    if (call != NULL) {
        rlock__say(call, "lock %s: %s", rlock__spec_text(hold->spec, name),
                   rlock__refusal(hold->spec, grant->link->server, reply, NULL, why));
    }
    if (class.way == RLOCK__RETRY && call != NULL) {
        rlock__call_step(call, RLOCK__SLEEPING);
        call->error =
            (class.is & RLOCK__MOVING) != 0 && grant->releasing ? RLOCK_EINDOUBT : class.code;
        rlock__timer_set(
            &hold->spec->core->timers, &call->timer,
            rlock__min(call->deadline, now + rlock__backoff(hold->spec->core, call->failures++)));
    } else if (grant->releasing) {
        rlock__release_leave(
            hold, grant->resent && (call == NULL || !call->member) ? RLOCK_EINDOUBT : class.code,
            retry_at(grant, now), now);
    } else {
        rlock__release_drop_levels(hold, class.code, now);
    }
}

/* There will be no answer: the bytes that came were not a reply, or the connection broke after
 * ASKING and there was no memory to send the request again. The last level's release is sent again
 * behind the fence: at once, and later after a pause, as a try may cost a connection. */
static void on_lost(struct rlock__hold *hold, int64_t now)
{
    if (hold->grant->releasing) {
        int64_t due = hold->turn != NULL ? now : now + hold->spec->core->opts.renewed_lease_us / 3;

        hold->grant->resent = true;
        rlock__release_leave(hold, RLOCK_EINDOUBT, due, now);
    } else {
        rlock__release_drop_levels(hold, RLOCK_EINDOUBT, now);
    }
}

static void on_answer(struct rlock__request *request, const struct rlock__reply *reply, int64_t now)
{
    struct rlock__hold *hold = request->subject;
    bool good = reply != NULL && !rlock__reply_is_error(reply);
    bool lost = request->garbled || (reply == NULL && request->asking);
    struct rlock__answer answer = {.outcome = RLOCK__DONE};
    int64_t t0 = rlock__hop_t0(request);

    assert(hold == NULL || hold->grant->release == request); /* send() set it */
    assert(hold == NULL || (hold->busy && hold->leaves.n > 0));
    if (hold != NULL && good) {
        answer = hold->spec->ops->read_release(reply);
    }
    if (rlock__hop(request, reply, now) ||
        (answer.outcome == RLOCK__GONE && rlock__hop_home(request, now))) {
        return;
    }
    if (hold != NULL && (reply != NULL || lost)) {
        hold->grant->release = NULL;
        hold->grant->resent |= request->copies > 1;
    }
    (void)rlock__request_free(request);
    assert(hold == NULL || reply != NULL || lost); /* otherwise it is sent again */
    if (hold == NULL || (reply == NULL && !lost)) {
        return;
    }
    if (lost) {
        on_lost(hold, now);
    } else if (!good) {
        on_refused(hold, reply, now);
    } else if (answer.outcome == RLOCK__DONE) {
        on_done(hold, &answer, t0, now);
    } else {
        on_gone(hold, &answer, now);
    }
}

/* ---- Sending ---- */

/* The last release has begun: no renewal may follow it, and the hold is not valid any more. */
static void begin_last(struct rlock__hold *hold, int64_t now)
{
    struct rlock__grant *grant = hold->grant;

    assert(hold->state != RLOCK__HOLD_NONE);
    assert(hold->busy && is_last(hold));
    grant->releasing = true;
    atomic_store(&hold->view->valid_until, 0);
    rlock__grant_mind_renewal(grant, now);
    rlock__grant_plan(grant);
    rlock__queue_releasing(hold->spec->core, hold->spec, now);
}

static bool send(struct rlock__hold *hold, int64_t now)
{
    struct rlock__grant *grant = hold->grant;
    uint32_t target = is_last(hold) ? 0 : hold->count - hold->leaves.n;
    bool renewed = target > 0 && rlock__hold_is_renewed(hold);
    int64_t lease =
        renewed ? rlock__grant_cut(grant, hold->spec->core->opts.renewed_lease_us, now) : 0;

    assert(grant->release == NULL && hold->leaves.n > 0);
    assert(hold->busy && hold->state != RLOCK__HOLD_NONE);
    assert(grant->number != 0);
    assert(!grant->releasing || target == 0); /* a last release stays the last one */
    grant->release = rlock__release_send(hold->spec, rlock__grant_route(grant), grant->number,
                                         target, lease, on_answer, hold, now);
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

    if (is_last(hold) && !grant->releasing) {
        begin_last(hold, now);
    }
    if (grant->releasing) {
        leave(hold, RLOCK_EINDOUBT, NO_MEMORY, retry_at(grant, now), now);
        return;
    }
    if (hold->turn != NULL) {
        rlock__release_describe(hold->turn, RLOCK_EINDOUBT, NO_MEMORY);
    }
    rlock__release_drop_levels(hold, RLOCK_EINDOUBT, now);
}

/* Ends a release whose hold was lost before it was sent: the server does not have the hold, or the
 * recovery releases it. But the last release of a thread that has ended goes on. */
static bool end_if_lost(struct rlock__hold *hold, int64_t now)
{
    if (hold->state != RLOCK__HOLD_LOST ||
        (hold->grant->releasing && hold->reason == RLOCK_LOST_THREAD_EXITED)) {
        return false;
    }
    end_lost(hold, now);
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
    rlock__timer_set(&call->core->timers, &call->timer, call->deadline);
}

static void again(struct rlock__hold *hold, int64_t now)
{
    struct rlock__grant *grant = hold->grant;

    if (grant->release == NULL && end_if_lost(hold, now)) {
        return;
    }
    if (grant->release == NULL && !send(hold, now)) {
        grant->due = retry_at(grant, now);
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
    if (now < hold->grant->free_by) {
        again(hold, now);
    } else {
        expired(hold, now);
    }
}
