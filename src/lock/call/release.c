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
 *           that waits for the answer; NULL: it has returned,
 *           perhaps at once (release_return). After the last level
 *           the owner's next call then gets another row
 * refused   grant.release = NULL. The call sleeps until it        on_refused         release_timer,
 *           asks again                                                               _give_up
 * left      grant.release = NULL, hold.turn = NULL. The release   release_leave,     release_due,
 *           is sent again when grant.timer fires; or for the      release_return     release_begin,
 *           first time, if the hold lingers                                          pass_retake
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

void rlock__release_describe(struct rlock__call *call, int code, const char *more)
{
    char name[96];

    assert(code != 0);
    rlock__say(call, "lock %s: %s%s (server %s)", rlock__spec_text(call->spec, name),
               rlock_strerror(code), more, call->link->server->address);
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
    if (hold->sent > 0) { /* the levels that are owed have their own outcome */
        rlock__hold_end_sent(hold, hold->sent - rlock__hold_sent_owed(hold), code);
    }
    rlock__hold_leave(hold, now);
}

void rlock__release_end_lost(struct rlock__hold *hold, int64_t now)
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
    if (rlock__is_last(hold)) {
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
    if (grant->resent && !grant->failed_over && rlock__is_last(hold) && now < grant->valid_until) {
        rlock__hold_ended(hold, NULL, now);
        rlock__release_end(hold, 0, now);
        return;
    }
    grant->releasing = false;
    rlock__hold_gone(hold, answer->taken, now);
    rlock__release_end_lost(hold, now);
}

static void on_done(struct rlock__hold *hold, const struct rlock__answer *answer, int64_t t0,
                    int64_t now)
{
    struct rlock__core *core = hold->spec->core;
    struct rlock__grant *grant = hold->grant;
    char name[96];

    assert(answer->outcome == RLOCK__DONE);
    /* no level came or went since send() */
    assert(hold->state == RLOCK__HOLD_LOST || grant->releasing == rlock__is_last(hold));
    if (answer->announcement_refused) {
        rlock__note(core, RLOCK_LOG_WARNING,
                    rlock__about("release", grant->link->server->address, RLOCK_EPERM),
                    "lock %s: released, but its waiters were not told: %s (server %s)",
                    rlock__spec_text(hold->spec, name), "no permission to publish on its channel",
                    grant->link->server->address);
    }
    if (!rlock__is_last(hold)) {
        int64_t lease = rlock__grant_cut(grant, core->opts.renewed_lease_us, t0);

        grant->uneven = false;
        if (rlock__units_of(hold) != NULL) {
            hold->units->most = rlock__hold_units(hold, hold->count - hold->leaves.n);
        }
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

/* The release goes on without its call. */
static void go_on_alone(struct rlock__hold *hold, int64_t due, int64_t now)
{
    struct rlock__grant *grant = hold->grant;

    assert(due >= now);
    assert(grant->releasing || grant->release != NULL); /* otherwise nothing ends the turn */
    rlock__grant_mind_renewal(grant, now);
    rlock__grant_mind_levels(grant, now);
    if (hold->detach == RLOCK__DETACHING) {
        due = rlock__detach_leave(hold, now);
    }
    grant->due = due;
    rlock__grant_doubt(grant, hold->turn);
    hold->turn = NULL;
    rlock__hold_show(hold);
    rlock__grant_plan(grant);
    assert(!grant->releasing || grant->timer.set); /* an answer may never come */
}

void rlock__release_return(struct rlock__hold *hold, int64_t due, int64_t now)
{
    struct rlock__call *call = hold->turn;

    assert(!call->member);
    assert(hold->grant->lingers || (call->sends && hold->grant->release->sent));
    go_on_alone(hold, due, now);
    rlock__release_count_sent(hold);
    if (hold->grant->releasing && hold->line == NULL) {
        rlock__hold_hide(hold);
    }
    call->count = rlock__hold_left(hold);
    rlock__call_complete(call, 0, NULL);
}

void rlock__release_leave_because(struct rlock__hold *hold, int code, const char *why, int64_t due,
                                  int64_t now)
{
    struct rlock__call *call = hold->turn;
    char more[64];

    assert(code != 0);
    assert(call == NULL || call->kind == RLOCK__RELEASE);
    go_on_alone(hold, due, now);
    (void)snprintf(more, sizeof(more), "%s; it is free in %lld ms", why,
                   (long long)rlock__ms_up(rlock__max(0, hold->grant->free_by - now)));
    if (call != NULL) {
        rlock__say_free(call, hold->grant->free_by);
        if (code == RLOCK_EINDOUBT || !call->described) {
            rlock__release_describe(call, code, more);
        }
        rlock__call_complete(call, code, NULL);
    }
}

void rlock__release_leave(struct rlock__hold *hold, int code, int64_t due, int64_t now)
{
    rlock__release_leave_because(hold, code, "", due, now);
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

/* ---- Detaches ---- */

void rlock__detach_fail(struct rlock__hold *hold, int code, int64_t now)
{
    hold->detach = RLOCK__ATTACHED;
    hold->leaves = (struct rlock__levels){0};
    hold->grant->releasing = false;
    if (code == RLOCK_ELOST) {
        char more[64];

        (void)snprintf(more, sizeof(more), ": %s", rlock_reason_text(hold->reason));
        rlock__release_describe(hold->turn, code, more);
    }
    rlock__hold_show(hold);
    rlock__grant_plan(hold->grant);
    rlock__release_end(hold, code, now);
}

/* Afterwards the hold is the text's. This client's waiters counted on the end of the hold: they ask
 * the server again, although the lock is not free. */
static void on_detach(struct rlock__hold *hold, const struct rlock__answer *answer, int64_t now)
{
    assert(rlock__detaches(hold->turn));
    if (answer->outcome == RLOCK__DONE) {
        hold->turn->number = hold->grant->number;
        rlock__hold_ended(hold, answer, now);
        rlock__release_end(hold, 0, now);
        return;
    }
    hold->grant->releasing = false;
    rlock__hold_gone(hold, answer->taken, now);
    rlock__detach_fail(hold, RLOCK_ELOST, now);
}

/* The number that an unlock released is not there. If a detach may have given the hold to its text,
 * releases that. Returns whether it does. */
static bool tries_text(struct rlock__hold *hold, int64_t now)
{
    if (hold->detach != RLOCK__REVOKING) {
        return false;
    }
    hold->detach = RLOCK__REVOKING_TEXT;
    if (hold->turn != NULL) {
        rlock__release_ask(hold->turn, now);
    } else {
        rlock__release_due(hold, now);
    }
    return true;
}

/* ---- Answers ---- */

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
    } else if (hold->sent > 0 && grant->failures == 0) { /* the first refusal */
        rlock__note(hold->spec->core, RLOCK_LOG_WARNING,
                    rlock__about("release", grant->link->server->address, class.code),
                    "lock %s: an unlock that did not wait for the answer: %s",
                    rlock__spec_text(hold->spec, name),
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
            rlock__release_retry_at(grant, now), now);
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

/* What a reply that is no error says. */
static struct rlock__answer read(const struct rlock__hold *hold, const struct rlock__reply *reply)
{
    return hold->detach == RLOCK__DETACHING ? hold->spec->ops->read_acquire(hold->spec, reply)
                                            : hold->spec->ops->read_release(reply);
}

static void on_good(struct rlock__hold *hold, const struct rlock__answer *answer, int64_t t0,
                    int64_t now)
{
    if (hold->detach == RLOCK__DETACHING) {
        on_detach(hold, answer, now);
    } else if (answer->outcome == RLOCK__DONE) {
        on_done(hold, answer, t0, now);
    } else if (!tries_text(hold, now)) {
        on_gone(hold, answer, now);
    }
}

void rlock__release_answered(struct rlock__request *request, const struct rlock__reply *reply,
                             int64_t now)
{
    struct rlock__hold *hold = request->subject;
    bool good = reply != NULL && !rlock__reply_is_error(reply);
    bool lost = request->garbled || (reply == NULL && request->asking);
    struct rlock__answer answer = {.outcome = RLOCK__DONE};
    int64_t t0 = rlock__hop_t0(request);

    assert(hold == NULL || hold->grant->release == request); /* send() set it */
    assert(hold == NULL || (hold->busy && hold->leaves.n > 0));
    if (hold != NULL && good) {
        answer = read(hold, reply);
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
    } else {
        on_good(hold, &answer, t0, now);
    }
}
