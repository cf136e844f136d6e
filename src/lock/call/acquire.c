/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The acquisition: one lock call, from its begin to its completion. rlock__call_step() moves it
 * from one step to another.
 *
 * step         what is true                                  entered by           left by
 * NEW          it has asked for nothing                      core_begin           acquire_begin
 * LINED_UP     an earlier call of its owner has the turn     acquire_begin        acquire_turn
 * QUEUED       it has the turn, and asks nothing: another    acquire_turn, batch  acquire_go
 *              call is the head of the wait queue, or asks
 *              for its batch
 * ASKING       its request waits for the link or a reply;    acquire_asks         acquire_answered,
 *              or a grant is checked, or acknowledged                             _granted, _retry
 * SUBSCRIBING  busy; its channel is not live yet             acquire_busy         acquire_wake
 * SLEEPING     busy, or after an error: it waits for a       acquire_busy, _retry acquire_wake,
 *              message, the end of a lease, or a recheck                          acquire_timer
 * PAUSING      it may ask, but lets other clients go first   acquire_go           acquire_timer
 * GIVING_UP    its code is decided. Its ticket is in         acquire_undo         acquire_settled,
 *              recovery; the call waits a short time for                          _end_open
 *              the end of the recovery
 * COMPLETE     it is in core.done                            call_complete
 *
 * From NEW to PAUSING, acquire_give_up() leads to GIVING_UP if a copy of the attempt may run or may
 * have run, else to COMPLETE. A hold that is passed on completes a call that waits. A call that
 * waits for a message has a timer too, or the call that asks for its batch has one. "Not acquired"
 * is the answer only if every copy that was sent is accounted for; else "in doubt", or "canceled".
 *
 * This file has the attempts and their answers. acquire_turn.c begins, acquire_wait.c sleeps and
 * wakes, acquire_grant.c judges a grant, acquire_end.c ends. acquire_state.c is below all of them.
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "lock/call/acquire.h"
#include "lock/call/enter.h"
#include "lock/call/explain.h"
#include "lock/common.h"
#include "lock/hold/hold.h"
#include "lock/hold/recovery.h"
#include "lock/hold/ticket.h"
#include "lock/server/channel.h"
#include "lock/server/classify.h"
#include "lock/server/hop.h"
#include "lock/server/route.h"
#include "lock/server/send.h"

static void on_error(struct rlock__call *call, const struct rlock__reply *reply, int64_t now)
{
    struct rlock__class class = rlock__core_classify(call->core, reply);
    bool again =
        class.way == RLOCK__RETRY || (class.way == RLOCK__WAIT && call->acquire.wait_us != 0);
    bool aborted = (class.is & RLOCK__ABORTED) != 0;
    char name[96], why[RLOCK__REFUSAL_SIZE];

    assert(class.code != 0); /* each refusal has a code */
    rlock__acquire_heard(call, now);
    (void)rlock__refusal(call->spec, call->link->server, reply, NULL, why);
    rlock__say(call, "lock %s: %s", rlock__spec_text(call->spec, name), why);
    if (rlock__explains(call)) {
        rlock__explain(call, now, "was refused: %s", why);
    }
    if (call->acquire.asked && aborted) { /* no other server can tell what the script did */
        rlock__acquire_retry(call, class.code, now);
        return;
    }
    call->acquire.ticket->in_flight.ran |= aborted;
    if (call->acquire.batch != NULL && call->acquire.batch->partial) {
        rlock__acquire_undo(call, class.code, now);
        return;
    }
    if (!again) {
        rlock__acquire_refuse(call, class.code, now);
        return;
    }
    call->error =
        class.way == RLOCK__RETRY ? rlock__acquire_passing_code(call, class.code) : class.code;
    rlock__acquire_sleep(call, RLOCK__SLEEPING, now + rlock__backoff(call->core, call->failures++));
}

/* The owner that the call names no longer has the hold. Or an earlier call of this client gave up,
 * and has not given it back yet. */
static void on_not_adopted(struct rlock__call *call, int64_t now)
{
    bool is_open = rlock__recovery_adopts(call);
    char name[96];

    rlock__say_free(call, 0);
    rlock__say(call, "lock %s: not adopted: %s (server %s)", rlock__spec_text(call->spec, name),
               is_open ? "an earlier attempt with this text is not undone yet; try again"
                       : "the text's hold has ended, or was adopted",
               call->link->server->address);
    rlock__acquire_refuse(call, is_open ? RLOCK_EINDOUBT : RLOCK_ENOTOWNER, now);
}

static void on_gone(struct rlock__call *call, const struct rlock__answer *answer, int64_t now)
{
    if (call->acquire.adopts != NULL) {
        on_not_adopted(call, now);
        return;
    }
    rlock__hold_gone(call->hold, answer->taken, now);
    rlock__acquire_describe(call, RLOCK_ELOST, now);
    rlock__acquire_refuse(call, RLOCK_ELOST, now);
}

void rlock__acquire_answered(struct rlock__call *call, const struct rlock__reply *reply, int64_t t0,
                             int64_t now)
{
    struct rlock__answer answer;

    assert(call->request == NULL);
    if (call->step == RLOCK__GIVING_UP) {
        rlock__acquire_late_answer(call, reply, now);
        return;
    }
    assert(call->step == RLOCK__ASKING);
    if (reply == NULL) { /* dropped: other calls of its batch gave up, this one follows */
        assert(call->acquire.batch != NULL);
        return;
    }
    call->error = 0;
    if (rlock__reply_is_error(reply)) {
        on_error(call, reply, now);
        return;
    }
    answer = call->spec->ops->read_acquire(call->spec, reply);
    if (!call->acquire.asked &&
        (answer.outcome != RLOCK__DONE ||
         rlock__acks_needed(call->link->server) == 0)) { /* a grant may still not count */
        call->failures = 0;
    }
    call->acquire.hint = answer.hint;
    switch (answer.outcome) {
    case RLOCK__DONE:
        call->acquire.has_more = answer.has_more;
        if (call->acquire.asked) {
            rlock__acquire_look(call, &answer, t0, now);
        } else {
            rlock__acquire_taken(call, answer.token, t0, now);
        }
        break;
    case RLOCK__BUSY:
        rlock__acquire_heard(call, now);
        if (rlock__explains(call)) {
            rlock__explain_busy(call, &answer, now);
        }
        rlock__proof_refused(call, answer.holder, now);
        if (rlock__acquire_is_too_young(call, now)) { /* a hold on that server would not count */
            rlock__acquire_describe(call, RLOCK_ERESTARTED, now);
            rlock__acquire_refuse(call, RLOCK_ERESTARTED, now);
            break;
        }
        rlock__acquire_account_busy(call);
        if (call->acquire.batch != NULL) {
            rlock__batch_busy(call, &answer, now);
        } else {
            rlock__acquire_busy(call, &answer, now);
        }
        break;
    case RLOCK__GONE:
        on_gone(call, &answer, now);
        break;
    }
}

void rlock__acquire_garbled(struct rlock__call *call, int64_t now)
{
    assert(call->request == NULL);
    if (call->step != RLOCK__GIVING_UP) {
        rlock__acquire_describe(call, RLOCK_EINDOUBT, now);
        rlock__acquire_undo(call, RLOCK_EINDOUBT, now);
    }
}

/* Whether the answer says that the hold which the call adds a level to, or adopts, is gone. */
static bool is_gone(const struct rlock__call *call, const struct rlock__reply *reply)
{
    return !rlock__reply_is_error(reply) &&
           call->spec->ops->read_acquire(call->spec, reply).outcome == RLOCK__GONE;
}

static void on_answer(struct rlock__request *request, const struct rlock__reply *reply, int64_t now)
{
    struct rlock__call *call = request->subject;
    bool garbled = request->garbled, asking = request->asking;
    int64_t t0 = rlock__hop_t0(request);

    if (call == NULL) {
        (void)rlock__request_free(request);
        return;
    }
    assert(call->acquire.batch == NULL); /* batch.c has its own on_answer() */
    assert(call->request == request);    /* rlock__acquire_asks() */
    assert(call->step == RLOCK__ASKING || call->step == RLOCK__GIVING_UP);
    rlock__acquire_note(call, request);
    if (reply != NULL && (rlock__hop(request, reply, now) ||
                          (is_gone(call, reply) && rlock__hop_home(request, now)))) {
        call->request = request;
        call->link = request->link;
        call->acquire.gen = 0;
        assert(call->step == RLOCK__ASKING); /* a call that gives up is not redirected */
        if (rlock__explains(call)) {
            rlock__explain(call, now, "was sent on to server %s", call->link->server->address);
        }
        return;
    }
    (void)rlock__request_free(request);
    if (garbled) {
        rlock__acquire_garbled(call, now);
    } else if (asking && reply == NULL && call->step != RLOCK__GIVING_UP) {
        rlock__acquire_describe(call, RLOCK_ECONN, now);
        rlock__acquire_retry(call, RLOCK_ECONN, now);
    } else {
        call->acquire.asked = asking;
        rlock__acquire_answered(call, reply, t0, now);
    }
}

/* This owner's hold on the other side of a read/write lock, as the server names it; empty: none. */
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
    return rlock__owner_text(call->core, hold->grant->number, out);
}

void rlock__acquire_follow(struct rlock__call *call)
{
    if (call->channel != NULL && rlock__channel_is_outdated(call->channel, call->spec)) {
        rlock__channel_leave(call);
        (void)rlock__channel_join(call);
    }
}

void rlock__acquire_asks(struct rlock__call *call, struct rlock__link *link,
                         struct rlock__request *request, struct rlock__cmd *ret_cmd, int64_t now)
{
    char owner[RLOCK__OWNER_SIZE], other[RLOCK__OWNER_SIZE];
    struct rlock__args args = {.owner = rlock__owner_text(call->core, call->number, owner),
                               .count = call->acquire.target,
                               .lease_ms = rlock__ms_up(rlock__acquire_lease(call, now)),
                               .other = other_hold(call, other),
                               .hint = call->acquire.hint};

    assert(call->request == NULL && call->acquire.look == NULL && call->step != RLOCK__GIVING_UP);
    assert(call->number != 0 && call->acquire.target > 0);
    assert(call->hold->turn == call);
    assert(call->hold->grant != NULL && call->acquire.ticket != NULL); /* rlock__hold_prepare() */
    assert(call->hold->state == RLOCK__HOLD_LOST ||
           call->acquire.target == call->hold->count + 1); /* one level more */
    assert(call->channel == NULL || call->channel->server == rlock__route(call->spec)->server);
    call->link = link;
    args.waits = call->channel != NULL;
    if (call->acquire.entry != NULL) {
        rlock__entry_ask(call, &args, now);
    }
    if (rlock__has_units(call->spec)) {
        rlock__units_ask(call, &args);
    }
    args.settled = rlock__settled(link->server, now);
    if (call->acquire.adopts != NULL) {
        args.from = rlock__bytes_of(call->acquire.adopts);
        call->spec->ops->rename(call->spec, &args, ret_cmd);
    } else {
        call->spec->ops->acquire(call->spec, &args, ret_cmd);
    }
    rlock__in_flight_fence(&call->acquire.ticket->in_flight);
    call->request = request;
    rlock__call_step(call, RLOCK__ASKING);
    call->acquire.asked_at = now;
    call->acquire.stale = false;
    call->acquire.deaf = !rlock__channel_is_live(call);
    call->acquire.attempts++;
    call->core->stats.attempts++;
    if (rlock__explains(call)) {
        rlock__explain_attempt(call, now);
    }
}

/* Whether it has found the lock busy, or others here wait for it. */
static bool waits(const struct rlock__call *call)
{
    return call->acquire.queue != NULL || call->channel != NULL;
}

void rlock__acquire_attempt(struct rlock__call *call, int64_t now)
{
    struct rlock__core *core = call->core;
    struct rlock__request *request;

    if (rlock__acquire_is_cut_off(call, now)) {
        return;
    }
    if (call->acquire.target > 1 && call->hold->state != RLOCK__HOLD_HELD) { /* while it waited */
        rlock__acquire_describe(call, RLOCK_ELOST, now);
        rlock__acquire_refuse(call, RLOCK_ELOST, now);
        return;
    }
    rlock__acquire_follow(call);
    if (!rlock__hold_prepare(call) || (waits(call) && !rlock__entry_prepare(call))) {
        rlock__acquire_starve(call, now);
        return;
    }
    if (call->acquire.batch != NULL) {
        rlock__batch_ask(call, now);
        return;
    }
    request = rlock__request_new(&core->requests, on_answer, call);
    if (request == NULL) {
        rlock__acquire_starve(call, now);
        return;
    }
    rlock__acquire_asks(call, rlock__route(call->spec), request, &request->cmd, now);
    if (!rlock__submit(request, call->spec, call->link, now)) {
        call->request = rlock__request_free(request);
        rlock__acquire_starve(call, now);
        return;
    }
    call->acquire.enqueued |=
        call->channel != NULL && (call->spec->ops->caps & RLOCK__CAP_QUEUES) != 0;
    rlock__timer_set(&core->timers, &call->timer, rlock__acquire_until(call));
}
