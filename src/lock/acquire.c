/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The acquisition: the whole effort of one lock call. Its steps:
 *   LINED_UP     another call of the same owner on the same lock goes first
 *   QUEUED       in the local line; only its head asks the server
 *   ASKING       an attempt waits for the link, or for its reply
 *   SUBSCRIBING  busy; the channel is not live yet, and will wake it; a timer too
 *   SLEEPING     busy; a message will wake it; a timer too: when the holder's lease ends, or to
 * look again GIVING_UP    ended with an attempt's outcome open: a release went out behind it, a
 * short grace runs COMPLETE Every step has a timer; nobody sleeps on a message alone. "Not
 * acquired" is answered only when every copy that was sent is accounted for; else the answer is "in
 * doubt".
 */
#include <stdio.h>
#include <stdlib.h>

#include "lock/internal.h"

static void attempt(struct rlock__call *call, int64_t now);

/*
 * "Busy" says that this number is not there now: with the links of its earlier copies fenced none
 * of them can put it there any more. Nothing else proves that: an error tells of the last copy
 * only.
 */
static void account_busy(struct rlock__call *call)
{
    if (call->lost_gen != 0 &&
        rlock__flight_is_fenced(&call->core->server.flight, call->lost_gen)) {
        call->lost_gen = 0;
    }
}

static struct rlock__open_copies open_copies(const struct rlock__call *call)
{
    return (struct rlock__open_copies){call->gen, call->lost_gen, call->sent_at};
}

static int64_t lease_of(const struct rlock__call *call)
{
    int64_t renewed = call->core->renewed_lease_us;

    if (call->lease_us != 0) {
        return call->lease_us;
    }
    return call->spec->tuning.max_hold_us != 0 ? rlock__min(renewed, call->spec->tuning.max_hold_us)
                                               : renewed;
}

/* Leaves everything that the call is in, except its turn on the hold. */
static void withdraw(struct rlock__call *call, int64_t granted_until, int64_t now)
{
    if (call->place != NULL) {
        rlock__place_leave(call, granted_until, now);
    }
    if (call->channel != NULL) {
        rlock__channel_leave(call);
    }
}

/* Completes with a code; call->detail is set already. */
static void end(struct rlock__call *call, int code, int64_t now)
{
    struct rlock__hold *hold = call->hold;

    if (code != 0 && call->enqueued) { /* leaves the queue on the server: nobody waits for that */
        call->enqueued = false;
        rlock__orphan_new(call->spec, call->number, 0, open_copies(call), lease_of(call), NULL,
                          now);
    }

    withdraw(call, code == 0 ? call->valid_until : 0, now);
    rlock__call_complete(call, code, NULL);
    if (hold != NULL) {
        rlock__hold_leave(hold, now);
    }
}

static void say(struct rlock__call *call, int code, int64_t now)
{
    const struct rlock__server *server = &call->core->server;
    const char *address = call->core->address;
    char name[96], holder[2 * RLOCK__HOLDER_SIZE];

    (void)rlock__spec_text(call->spec, name);
    (void)rlock__text(rlock__bytes_of(call->holder), holder, sizeof(holder));
    if (code == RLOCK_EINDOUBT) {
        int64_t left = rlock__max(0, call->sent_at + lease_of(call) - now);

        (void)snprintf(
            call->detail, sizeof(call->detail),
            "lock %s: no answer from server %s; if it was granted, it is free again in %lld ms",
            name, address, (long long)rlock__ms_up(left));
    } else if (code == RLOCK_ECONN || code == RLOCK_EAUTH || code == RLOCK_ETLS) {
        (void)snprintf(call->detail, sizeof(call->detail), "lock %s: server %s%s", name,
                       server->link_code != 0 ? server->link_error : address,
                       server->link_code != 0 ? "" : ": not connected yet");
    } else if (call->contended && holder[0] == '\0') {
        (void)snprintf(call->detail, sizeof(call->detail),
                       "lock %s: others wait for it (server %s)", name, address);
    } else if (call->contended) {
        (void)snprintf(call->detail, sizeof(call->detail), "lock %s: held by %s (server %s)", name,
                       holder, address);
    } else {
        (void)snprintf(call->detail, sizeof(call->detail), "lock %s: %s (server %s)", name,
                       rlock_strerror(code), address);
    }
}

/* Waits a short while for what was sent to be settled; the rest of the call is over. */
static void wait_for_orphan(struct rlock__call *call, int code, int64_t now)
{
    int64_t grace = code == RLOCK_ECANCELED ? RLOCK__CANCEL_GRACE_US : RLOCK__GRACE_US;
    uint32_t outer = call->target - 1;

    call->step = RLOCK__GIVING_UP;
    call->code = code;
    call->enqueued = false; /* the release takes it out of the queue too */
    withdraw(call, 0, now);
    rlock__timer_set(&call->core->timers, &call->timer, now + grace);
    rlock__orphan_new(call->spec, call->number, outer, open_copies(call), lease_of(call), call,
                      now);
}

/* Not acquired, with nothing in flight: says so, if no earlier copy may have taken it, or may yet.
 */
static void refuse(struct rlock__call *call, int code, int64_t now)
{
    if (call->lost_gen == 0) {
        end(call, code, now);
    } else {
        wait_for_orphan(call, code, now);
    }
}

/* ---- Attempts and their answers ---- */

static bool may_try_again(const struct rlock__call *call, int64_t now)
{
    return call->attempts == 0 ||
           rlock__later(now, call->core->server.flight.rtt) <= call->deadline;
}

/* Sleeps until a time, a message, or the deadline. */
static void sleep_until(struct rlock__call *call, enum rlock__step step, int64_t at)
{
    call->step = step;
    rlock__timer_set(&call->core->timers, &call->timer, rlock__min(at, call->deadline));
}

static int64_t poll_pause(struct rlock__core *core)
{
    return RLOCK__POLL_US - rlock__random(core, RLOCK__POLL_US / 4);
}

/* Attempt failed for now: sleeps, at most until the holder's lease ends. ttl_ms: as PTTL says it.
 */
static void sleep_busy(struct rlock__call *call, const struct rlock__answer *answer, int64_t now)
{
    bool live = rlock__channel_is_live(call);
    int64_t pause = live ? RLOCK__RECHECK_US : poll_pause(call->core);

    if (answer->recheck_ms != 0) {
        pause = rlock__min(pause, answer->recheck_ms * RLOCK__MS);
    }
    if (answer->ttl_ms >= 0) { /* a key is gone in the millisecond after its PTTL reached 0 */
        pause = rlock__min(pause, rlock__min(answer->ttl_ms, RLOCK__RECHECK_US / 1000) * RLOCK__MS +
                                      2 * RLOCK__MS);
    }
    sleep_until(call, live ? RLOCK__SLEEPING : RLOCK__SUBSCRIBING, now + pause);
}

static void on_busy(struct rlock__call *call, const struct rlock__answer *answer, int64_t now)
{
    bool joined = call->channel != NULL;

    call->contended = true;
    (void)snprintf(call->holder, sizeof(call->holder), "%.*s",
                   (int)rlock__min((int64_t)answer->holder.len, 127), answer->holder.at);
    say(call, RLOCK_EBUSY, now);
    if (call->wait_us == 0) {
        refuse(call, RLOCK_EBUSY, now);
    } else if ((call->spec->ops->caps & RLOCK__CAP_SPINS) != 0) {
        sleep_until(call, RLOCK__SLEEPING, now + rlock__spin_pause(call));
    } else if (!joined && !rlock__channel_join(call)) {
        refuse(call, RLOCK_ENOMEM, now);
    } else if ((call->stale || (!joined && rlock__channel_is_live(call))) &&
               may_try_again(call, now)) {
        attempt(call,
                now); /* the lock was released after that attempt, or may have been, unheard */
    } else {
        sleep_busy(call, answer, now);
    }
}

static void on_granted(struct rlock__call *call, const struct rlock__answer *answer, int64_t t0,
                       int64_t now)
{
    int64_t lease = lease_of(call);

    if (call->target > 1 &&
        call->hold->state != RLOCK__HOLD_HELD) { /* lost meanwhile, and lost it stays */
        say(call, RLOCK_ELOST, now);
        end(call, RLOCK_ELOST, now);
        return;
    }
    if (now >= rlock__valid_until(call->core, t0, lease)) { /* granted, and over already */
        say(call, RLOCK_ETIMEDOUT, now);
        if (call->target > 1 || now >= call->deadline || call->wait_us == 0) {
            wait_for_orphan(call, RLOCK_ETIMEDOUT, now);
            return;
        }
        rlock__orphan_new(call->spec, call->number, 0, open_copies(call), lease, NULL, now);
        if (call->channel != NULL) { /* it may be the old number's own */
            rlock__channel_leave(call);
        }
        call->enqueued = false;
        call->number = ++call->core->last_number; /* the old one is retired by its release */
        call->lost_gen = 0;
        attempt(call, now);
        return;
    }
    call->token = call->target == 1 ? answer->token : call->hold->token;
    rlock__hold_granted(call->hold, call, t0, lease);
    call->valid_until = call->hold->valid_until;
    call->lease_granted_us = lease;
    call->count = call->target;
    call->claim = rlock__claim_ref(call->hold->claim);
    end(call, 0, now);
}

static void on_error(struct rlock__call *call, const struct rlock__reply *reply, int64_t now)
{
    struct rlock__class class = rlock__classify(reply);
    bool again = class.way == RLOCK__RETRY || (class.way == RLOCK__WAIT && call->wait_us != 0);
    char name[96], text[160];

    (void)snprintf(call->detail, sizeof(call->detail), "lock %s: server %s: %s: %s",
                   rlock__spec_text(call->spec, name), call->core->address,
                   rlock__text(rlock__reply_str(reply, 0), text, sizeof(text)), class.hint);
    if (!again) {
        refuse(call, class.code, now);
        return;
    }
    call->error = class.code;
    sleep_until(call, RLOCK__SLEEPING, now + rlock__backoff(call->core, call->failures++));
}

static void on_lost_outer(struct rlock__call *call, const struct rlock__answer *answer, int64_t now)
{
    rlock__hold_lose(call->hold, rlock__reason_gone(answer), now);
    say(call, RLOCK_ELOST, now);
    refuse(call, RLOCK_ELOST, now);
}

/* The answer to an attempt whose call gave up: "busy" settles it; a grant is undone by the release
 * behind it. */
static void on_late_answer(struct rlock__call *call, const struct rlock__reply *reply, int64_t now)
{
    bool refused = reply != NULL && rlock__reply_is_error(reply);

    if (reply != NULL && !refused &&
        call->spec->ops->read_acquire(reply, call->memo, now).outcome == RLOCK__BUSY) {
        account_busy(call);
        refused = true;
    }
    if (refused && call->lost_gen == 0) {
        rlock__orphan_forget(call->core, call);
        rlock__acquire_settled(call, now);
    }
}

static void on_answer(struct rlock__request *request, const struct rlock__reply *reply, int64_t now)
{
    struct rlock__call *call = request->subject;
    struct rlock__answer answer = {.outcome = RLOCK__GARBLED};
    int64_t t0 = request->t0;

    if (call != NULL) {
        call->request = NULL;
        call->sent_at = t0;
        call->gen = request->gen;
        call->lost_gen = request->lost_gen > call->lost_gen ? request->lost_gen : call->lost_gen;
    }
    (void)rlock__request_free(request);
    if (call == NULL) {
        return;
    }
    if (call->step == RLOCK__GIVING_UP) {
        on_late_answer(call, reply, now);
        return;
    }
    call->error = 0;
    if (rlock__reply_is_error(reply)) {
        on_error(call, reply, now);
        return;
    }
    call->failures = 0;
    answer = call->spec->ops->read_acquire(reply, call->memo, now);
    switch (answer.outcome) {
    case RLOCK__DONE:
        on_granted(call, &answer, t0, now);
        break;
    case RLOCK__BUSY:
        account_busy(call);
        on_busy(call, &answer, now);
        break;
    case RLOCK__GONE:
        on_lost_outer(call, &answer, now);
        break;
    case RLOCK__GARBLED:
        say(call, RLOCK_EINDOUBT, now);
        wait_for_orphan(call, RLOCK_EREFUSED, now);
        break;
    }
}

/* This owner's hold on the other side of a read/write lock, as the server names it; empty none. */
static struct rlock__bytes other_hold(const struct rlock__call *call,
                                      char out[static RLOCK__OWNER_SIZE])
{
    const struct rlock__hold *hold =
        call->spec->ops->other_side == 0
            ? NULL
            : rlock__hold_find_side(call->core, call->spec, call->owner,
                                    call->spec->ops->other_side);

    if (hold == NULL || hold->state != RLOCK__HOLD_HELD) {
        return rlock__bytes("", 0);
    }
    return rlock__owner_text(call->core, hold->number, out);
}

static void attempt(struct rlock__call *call, int64_t now)
{
    struct rlock__core *core = call->core;
    struct rlock__request *request = rlock__request_new(on_answer, call);
    char owner[RLOCK__OWNER_SIZE], other[RLOCK__OWNER_SIZE];
    struct rlock__ask ask = {.owner = rlock__owner_text(core, call->number, owner),
                             .count = call->target,
                             .lease_ms = rlock__ms_up(lease_of(call)),
                             .publish = "PUBLISH",
                             .other = other_hold(call, other),
                             .waits = call->channel != NULL,
                             .memo = call->memo,
                             .now = now};

    if (request == NULL) {
        refuse(call, RLOCK_ENOMEM, now);
        return;
    }
    call->spec->ops->acquire(call->spec, &ask, &request->cmd);
    call->enqueued |= ask.waits && (call->spec->ops->caps & RLOCK__CAP_QUEUES) != 0;
    call->request = request;
    call->step = RLOCK__ASKING;
    call->stale = false;
    call->attempts++;
    rlock__timer_set(&core->timers, &call->timer, call->deadline);
    rlock__flight_submit(&core->server.flight, request, now);
}

/* ---- Beginning, waking, waiting ---- */

void rlock__acquire_begin(struct rlock__call *call, int64_t now)
{
    struct rlock__core *core = call->core;
    int64_t wait = call->wait_us == 0 ? core->op_timeout_us : call->wait_us;
    struct rlock__hold *hold = rlock__hold_get(core, call->spec, call->owner);

    call->deadline = call->wait_us < 0 ? RLOCK__NEVER : rlock__later(now, wait);
    if (call->spec->ops->memo_size != 0) {
        call->memo = calloc(1, call->spec->ops->memo_size);
    }
    if (hold == NULL || (call->spec->ops->memo_size != 0 && call->memo == NULL)) {
        rlock__call_complete(call, RLOCK_ENOMEM, "no memory");
        return;
    }
    if (rlock__hold_enter(hold, call)) {
        rlock__acquire_turn(call, now);
    } else {
        rlock__timer_set(&core->timers, &call->timer, call->deadline);
    }
}

/* The owner holds it already: one level more, asked for at once, whoever waits. */
static void turn_nested(struct rlock__call *call, int64_t now)
{
    struct rlock__hold *hold = call->hold;

    if (hold->state == RLOCK__HOLD_HELD && now >= hold->valid_until) {
        rlock__hold_lose(hold, RLOCK_LOST_EXPIRED, now);
    }
    if (hold->state == RLOCK__HOLD_LOST) {
        say(call, RLOCK_ELOST, now);
        end(call, RLOCK_ELOST, now);
    } else if ((call->spec->ops->caps & RLOCK__CAP_REENTRANT) == 0 ||
               call->spec->tuning.no_reentry) {
        say(call, RLOCK_EREACQUIRE, now);
        end(call, RLOCK_EREACQUIRE, now);
    } else {
        call->number = hold->number;
        call->target = hold->count + 1;
        attempt(call, now);
    }
}

/* Whether the owner's other holds under this name stand against it: 0, or the code. */
static int conflict(const struct rlock__call *call)
{
    const struct rlock_ops *ops = call->spec->ops;
    const struct rlock__hold *hold = call->hold;

    if (hold->state != RLOCK__HOLD_NONE && hold->spec->ops != ops) {
        return RLOCK_EINVAL;
    }
    for (const char *side = "xrw"; *side != '\0'; side++) {
        const struct rlock__hold *other =
            *side == ops->side ? NULL
                               : rlock__hold_find_side(call->core, call->spec, call->owner, *side);

        if (other == NULL || other->state != RLOCK__HOLD_HELD || other->releasing) {
            continue;
        }
        if (*side != ops->other_side) {
            return RLOCK_EINVAL;
        }
        if ((ops->caps & RLOCK__CAP_NO_UPGRADE) != 0 && hold->state == RLOCK__HOLD_NONE) {
            return RLOCK_EDEADLOCK; /* it would wait for itself */
        }
    }
    return 0;
}

void rlock__acquire_turn(struct rlock__call *call, int64_t now)
{
    struct rlock__core *core = call->core;
    int code = core->closed ? RLOCK_ECLOSED : conflict(call);

    if (code != 0) {
        say(call, code, now);
        end(call, code, now);
        return;
    }
    if (call->hold->state != RLOCK__HOLD_NONE) {
        turn_nested(call, now);
        return;
    }
    call->number = ++core->last_number;
    call->target = 1;
    if (call->wait_us == 0 || (call->spec->ops->caps & RLOCK__CAP_LOCAL_LINE) == 0) {
        attempt(call, now);
    } else if (!rlock__place_join(call)) {
        end(call, RLOCK_ENOMEM, now);
    } else if (rlock__place_is_head(call)) {
        attempt(call, now);
    } else {
        sleep_until(call, RLOCK__QUEUED, call->deadline);
    }
}

void rlock__acquire_head(struct rlock__call *call, int64_t granted_until, int64_t now)
{
    bool live;

    if (call->core->closed) { /* it ends next */
        return;
    }
    if (granted_until != 0 && (call->spec->ops->caps & RLOCK__CAP_SPINS) != 0) {
        sleep_until(call, RLOCK__SLEEPING, now + rlock__spin_pause(call));
        return;
    }
    if (granted_until == 0 || !rlock__channel_join(call)) {
        attempt(call, now);
        return;
    }
    live = rlock__channel_is_live(call);
    sleep_until(call, live ? RLOCK__SLEEPING : RLOCK__SUBSCRIBING,
                rlock__min(now + (live ? RLOCK__RECHECK_US : poll_pause(call->core)),
                           granted_until + RLOCK__MS));
}

void rlock__acquire_wake(struct rlock__call *call, int64_t now)
{
    if (call->step == RLOCK__ASKING) {
        call->stale = true;
    } else if ((call->step == RLOCK__SLEEPING || call->step == RLOCK__SUBSCRIBING) &&
               may_try_again(call, now)) {
        attempt(call, now);
    }
}

void rlock__acquire_unheard(struct rlock__call *first, int64_t now)
{
    for (struct rlock__call *call = first; call != NULL; call = call->wait_next) {
        if (call->step == RLOCK__SLEEPING) {
            sleep_until(call, RLOCK__SUBSCRIBING,
                        rlock__min(call->timer.at, now + poll_pause(call->core)));
        }
    }
}

/* What a call that ran into its deadline says. */
static int timeout_code(const struct rlock__call *call)
{
    const struct rlock__server *server = &call->core->server;

    if (!server->flight.up) {
        return server->link_code != 0 ? server->link_code : RLOCK_ECONN;
    }
    if (call->error != 0) {
        return call->error;
    }
    return call->wait_us == 0 && call->step == RLOCK__LINED_UP ? RLOCK_EBUSY : RLOCK_ETIMEDOUT;
}

void rlock__acquire_timer(struct rlock__call *call, int64_t now)
{
    if (call->step == RLOCK__GIVING_UP) { /* the grace is over */
        rlock__orphan_forget(call->core, call);
        if (call->request != NULL) {
            call->request->subject = NULL;
            call->request = NULL;
        }
        say(call, RLOCK_EINDOUBT, now);
        end(call, RLOCK_EINDOUBT, now);
    } else if (now >= call->deadline) {
        rlock__acquire_give_up(call, timeout_code(call), now);
    } else if (may_try_again(call, now)) {
        attempt(call, now);
    } else {
        sleep_until(call, call->step, call->deadline);
    }
}

/* ---- Giving up ---- */

/* Takes back the attempt. Returns whether a copy of it may have run, or may yet. */
static bool take_back(struct rlock__call *call)
{
    struct rlock__request *request = call->request;

    if (request == NULL) {
        return call->lost_gen != 0;
    }
    call->sent_at = request->t0;
    call->gen = request->gen;
    call->lost_gen = request->lost_gen > call->lost_gen ? request->lost_gen : call->lost_gen;
    if (request->sent) {
        request->resend = RLOCK__DROP; /* its reply is read in its place */
        return true;
    }
    call->request = NULL;
    rlock__flight_withdraw(&call->core->server.flight, request);
    (void)rlock__request_free(request);
    return call->lost_gen != 0;
}

void rlock__acquire_give_up(struct rlock__call *call, int code, int64_t now)
{
    enum rlock__step step = call->step;

    if (step == RLOCK__LINED_UP) {
        rlock__hold_unline(call);
    }
    if (step != RLOCK__GIVING_UP) {
        if (code != RLOCK_ETIMEDOUT || !call->contended) {
            say(call, code, now);
        }
        if (!take_back(call)) {
            end(call, code, now);
            return;
        }
        wait_for_orphan(call, code, now);
    }
    if (code == RLOCK_ECLOSED &&
        call->step == RLOCK__GIVING_UP) { /* the client's end waits for orphans itself */
        rlock__orphan_forget(call->core, call);
        call->code = code;
        rlock__acquire_settled(call, now);
    }
}

void rlock__acquire_settled(struct rlock__call *call, int64_t now)
{
    if (call->request != NULL) {
        call->request->subject = NULL;
        call->request = NULL;
    }
    end(call, call->code, now);
}
