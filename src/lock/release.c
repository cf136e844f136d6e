/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The release of one level. The call has a deadline; the release itself goes on without it, until
 * the server answered or the lease has ended anyway, and keeps the hold's turn: a new acquisition
 * by the same owner waits.
 */
#include <stdio.h>

#include "lock/classify.h"
#include "lock/hop.h"
#include "lock/internal.h"
#include "lock/pass.h"
#include "lock/queue.h"

static void describe(struct rlock__call *call, int code, const char *more)
{
    char name[96];

    rlock__say(call, "lock %s: %s%s (server %s)", rlock__spec_text(call->spec, name),
               rlock_strerror(code), more, call->link->server->address);
}

/* Ends the turn, and the call if it still waits. */
static void end(struct rlock__hold *hold, int code, int64_t now)
{
    struct rlock__call *call = hold->turn;

    if (call != NULL) {
        call->count = hold->count;
        if (code != 0 && !call->described) {
            describe(call, code, "");
        }
        rlock__call_complete(call, code, NULL);
    }
    rlock__hold_leave(hold, now);
}

/* One unlock of a hold that is lost: no I/O. */
static void end_lost(struct rlock__hold *hold, int64_t now)
{
    char more[64];

    (void)snprintf(more, sizeof(more), ": %s", rlock_reason_text(hold->reason));
    if (hold->turn != NULL) {
        describe(hold->turn, RLOCK_ELOST, more);
    }
    hold->grant->releasing = false;
    if (hold->count > 1) {
        rlock__hold_set_count(hold, hold->count - 1);
    } else {
        rlock__hold_over(hold);
    }
    end(hold, RLOCK_ELOST, now);
}

static void on_gone(struct rlock__hold *hold, const struct rlock__answer *answer, int64_t now)
{
    struct rlock__grant *grant = hold->grant;

    if (grant->resent && !grant->failed_over && hold->count == 1 && now < grant->valid_until) {
        rlock__hold_ended(hold, NULL, now);
        end(hold, 0, now);
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

    if (answer->announcement_refused) {
        rlock__note(core, RLOCK_LOG_WARNING,
                    "lock %s: released, but its waiters were not told: %s (server %s)",
                    rlock__spec_text(hold->spec, name), "no permission to publish on its channel",
                    grant->link->server->address);
    }
    if (hold->count > 1) {
        int64_t lease = rlock__grant_cut(grant, core->renewed_lease_us, t0);
        bool renewed = rlock__hold_stays_renewed(hold);

        rlock__hold_drop_level(hold);
        if (renewed && hold->state == RLOCK__HOLD_HELD && now < grant->valid_until) {
            rlock__grant_extended(grant, t0, lease, now);
        }
        rlock__grant_plan(grant);
    } else {
        rlock__hold_ended(hold, answer, now);
    }
    end(hold, 0, now);
}

/* When the last release is tried again after a failure. */
static int64_t retry_at(struct rlock__grant *grant, int64_t now)
{
    return now + rlock__backoff(grant->hold->spec->core, grant->failures++);
}

/* The caller is told why, and goes; the last release, if it is that, goes on without it: the
 * hold is not valid any more, and not renewed. due: when it is tried again, if nothing is in
 * flight. */
static void leave(struct rlock__hold *hold, int code, int64_t due, int64_t now)
{
    struct rlock__grant *grant = hold->grant;
    struct rlock__call *call = hold->turn;
    char more[64];

    rlock__grant_mind_renewal(grant, now);
    rlock__grant_mind_levels(grant, now);
    (void)snprintf(more, sizeof(more), "; it is free in %lld ms",
                   (long long)rlock__ms_up(rlock__max(0, grant->free_by - now)));
    grant->due = due;
    rlock__grant_doubt(grant, call);
    hold->turn = NULL;
    rlock__grant_plan(grant);
    if (call != NULL) {
        if (code == RLOCK_EINDOUBT || !call->described) {
            describe(call, code, more);
        }
        rlock__call_complete(call, code, NULL);
    }
}

/*
 * The release of a level, not the last one, was not done, and is not tried again. The hold stays,
 * and is not renewed any more: its owner may unlock it again. A group has given its level up
 * for good, as has a caller that was told that it is in doubt: the last release takes it along.
 */
static void keep_level(struct rlock__hold *hold, int code, int64_t now)
{
    if (hold->turn == NULL || hold->turn->member || code == RLOCK_EINDOUBT) {
        rlock__hold_drop_level(hold);
    } else {
        hold->renewed_from = hold->renewals = hold->kept = 0;
    }
    rlock__grant_plan(hold->grant);
    end(hold, code, now);
}

/* The server refused. This copy changed nothing unless stopped halfway; an earlier one may have. */
static void on_refused(struct rlock__hold *hold, const struct rlock__reply *reply, int64_t now)
{
    struct rlock__class class = rlock__core_classify(hold->spec->core, reply);
    struct rlock__grant *grant = hold->grant;
    struct rlock__call *call = hold->turn;
    char name[96], why[RLOCK__REFUSAL_SIZE];

    grant->resent |= rlock__is_aborted(reply);
    if (call != NULL) {
        rlock__say(call, "lock %s: %s", rlock__spec_text(hold->spec, name),
                   rlock__refusal(hold->spec, grant->link->server, reply, NULL, why));
    }
    if (class.way == RLOCK__RETRY && call != NULL) {
        rlock__call_step(call, RLOCK__SLEEPING);
        call->error = rlock__is_moving(&class) && grant->releasing ? RLOCK_EINDOUBT : class.code;
        rlock__timer_set(
            &hold->spec->core->timers, &call->timer,
            rlock__min(call->deadline, now + rlock__backoff(hold->spec->core, call->failures++)));
    } else if (grant->releasing) {
        leave(hold, grant->resent && (call == NULL || !call->member) ? RLOCK_EINDOUBT : class.code,
              retry_at(grant, now), now);
    } else {
        keep_level(hold, class.code, now);
    }
}

/* There will be no answer. What came in its place was none; or it went down behind ASKING, and no
 * memory was there to send it again. The release of the last level is sent once more behind the
 * fence, and where that has cost another link, not soon again. */
static void on_lost(struct rlock__hold *hold, int64_t now)
{
    if (hold->grant->releasing) {
        int64_t due = hold->turn != NULL ? now : now + hold->spec->core->renewed_lease_us / 3;

        hold->grant->resent = true;
        leave(hold, RLOCK_EINDOUBT, due, now);
    } else {
        keep_level(hold, RLOCK_EINDOUBT, now);
    }
}

static void on_answer(struct rlock__request *request, const struct rlock__reply *reply, int64_t now)
{
    struct rlock__hold *hold = request->subject;
    bool good = reply != NULL && !rlock__reply_is_error(reply);
    bool lost = request->garbled || (reply == NULL && request->asking);
    struct rlock__answer answer = {.outcome = RLOCK__DONE};
    int64_t t0 = rlock__hop_t0(request);

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

/* ---- The call ---- */

/* The last release has begun: no renewal may follow it, and the hold is not valid any more. */
static void begin_last(struct rlock__hold *hold, int64_t now)
{
    struct rlock__grant *grant = hold->grant;

    grant->releasing = true;
    atomic_store(&hold->claim->valid_until, 0);
    rlock__grant_mind_renewal(grant, now);
    rlock__grant_plan(grant);
    rlock__queue_releasing(hold->spec->core, hold->spec, now);
}

static bool send(struct rlock__hold *hold, int64_t now)
{
    struct rlock__grant *grant = hold->grant;
    uint32_t target = hold->count - 1;
    bool renewed = target > 0 && rlock__hold_stays_renewed(hold);
    int64_t lease = renewed ? rlock__grant_cut(grant, hold->spec->core->renewed_lease_us, now) : 0;

    grant->release = rlock__release_send(hold->spec, rlock__grant_route(grant), grant->number,
                                         target, lease, on_answer, hold, now);
    if (grant->release != NULL && target == 0) {
        begin_last(hold, now);
    }
    return grant->release != NULL;
}

/* Nothing was sent for want of memory. The hold stays as it is, for its owner to unlock it again; a
 * group does not: its level goes with the next release, or the last one goes on without it. */
static void starve(struct rlock__call *call, int64_t now)
{
    struct rlock__hold *hold = call->hold;
    struct rlock__grant *grant = hold->grant;

    if (call->member && hold->count == 1 && !grant->releasing) {
        begin_last(hold, now);
    }
    if (grant->releasing) {
        leave(hold, RLOCK_ENOMEM, retry_at(grant, now), now);
    } else if (call->member) {
        keep_level(hold, RLOCK_ENOMEM, now);
    } else {
        end(hold, RLOCK_ENOMEM, now);
    }
}

/* Lost before it is sent: the server does not have it, or an orphan gives it back. What a thread
 * that ended was giving back goes on. */
static bool end_if_lost(struct rlock__hold *hold, int64_t now)
{
    if (hold->state != RLOCK__HOLD_LOST ||
        (hold->grant->releasing && hold->reason == RLOCK_LOST_THREAD_EXITED)) {
        return false;
    }
    end_lost(hold, now);
    return true;
}

/* Waits for the answer; where nothing is in flight, the release is sent first. */
static void ask(struct rlock__call *call, int64_t now)
{
    struct rlock__hold *hold = call->hold;

    if (hold->grant->release == NULL && end_if_lost(hold, now)) {
        return;
    }
    if (hold->grant->release == NULL && !send(hold, now)) {
        starve(call, now);
        return;
    }
    rlock__call_step(call, RLOCK__ASKING);
    rlock__timer_set(&call->core->timers, &call->timer, call->deadline);
}

void rlock__release_again(struct rlock__hold *hold, int64_t now)
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

void rlock__release_begin(struct rlock__call *call, int64_t now)
{
    struct rlock__hold *hold = rlock__hold_find(call->core, call->spec, call->owner);

    call->deadline = now + call->core->op_timeout_us;
    if (hold == NULL || hold->spec->ops != call->spec->ops) {
        describe(call, RLOCK_ENOTOWNER, "");
        rlock__call_complete(call, RLOCK_ENOTOWNER, NULL);
        return;
    }
    if (hold->turn == NULL && hold->grant->releasing) { /* it goes on without a caller: joined */
        call->hold = hold;
        hold->turn = call;
        ask(call, now);
    } else if (rlock__hold_enter(hold, call)) {
        rlock__release_turn(call, now);
    } else {
        rlock__timer_set(&call->core->timers, &call->timer, call->deadline);
    }
}

void rlock__release_turn(struct rlock__call *call, int64_t now)
{
    struct rlock__hold *hold = call->hold;
    struct rlock__grant *grant = hold->grant;

    if (hold->state == RLOCK__HOLD_HELD && now >= grant->valid_until) {
        rlock__hold_lose(hold, RLOCK_LOST_EXPIRED, now);
    }
    if (call->core->closed) {
        end(hold, RLOCK_ECLOSED, now);
    } else if (hold->state == RLOCK__HOLD_NONE) {
        end(hold, RLOCK_ENOTOWNER, now);
    } else if (!call->member && rlock__pass(hold, now)) {
        end(hold, 0, now);
    } else {
        call->deadline =
            rlock__min(call->deadline, grant->valid_until + call->core->op_timeout_us / 2);
        grant->resent = false;
        hold->member_leaves = call->member && hold->members > 0;
        hold->renewal_leaves = call->renewed;
        hold->kept_leaves = call->kept;
        ask(call, now);
    }
}

void rlock__release_give_up(struct rlock__call *call, int code, int64_t now)
{
    struct rlock__hold *hold = call->hold;
    const struct rlock__grant *grant = hold->grant;

    if (call->step == RLOCK__LINED_UP) {
        rlock__hold_unline(call, now);
        describe(call, code, "");
        rlock__call_complete(call, code, NULL);
        return;
    }
    if (grant->release == NULL && call->error != 0 && code == RLOCK_EINDOUBT &&
        !(grant->releasing && grant->resent)) { /* between two tries: the server did nothing */
        code = call->error;
    }
    if (grant->release == NULL && !grant->releasing) {
        keep_level(hold, code, now);
    } else {
        leave(hold, code, now, now);
    }
}

void rlock__release_timer(struct rlock__call *call, int64_t now)
{
    if (now >= call->deadline) {
        bool lined_up = call->step == RLOCK__LINED_UP;

        rlock__release_give_up(call, lined_up ? RLOCK_ETIMEDOUT : RLOCK_EINDOUBT, now);
    } else {
        ask(call, now);
    }
}

void rlock__release_expired(struct rlock__hold *hold, int64_t now)
{
    struct rlock__grant *grant = hold->grant;

    if (grant->release != NULL) {
        grant->release = rlock__abandon(grant->release);
    }
    rlock__hold_ended(hold, NULL, now);
    end(hold, RLOCK_EINDOUBT, now);
}
