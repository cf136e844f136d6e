/* SPDX-License-Identifier: Apache-2.0 */
/* How an acquisition ends: granted, refused, given up, or in doubt if an attempt is open. */
#include <assert.h>
#include <stdio.h>

#include "lock/call/acquire.h"
#include "lock/call/calls.h"
#include "lock/call/enter.h"
#include "lock/call/explain.h"
#include "lock/common.h"
#include "lock/hold/hold.h"
#include "lock/hold/queue.h"
#include "lock/hold/recovery.h"
#include "lock/server/channel.h"
#include "lock/server/classify.h"
#include "lock/server/route.h"
#include "lock/server/send.h"

void rlock__acquire_account_busy(struct rlock__call *call)
{
    struct rlock__in_flight *set = &call->acquire.ticket->in_flight;
    bool ran = set->ran;

    assert(call->request == NULL); /* its answer was read */
    rlock__in_flight_answered(set, call->link, call->acquire.gen);
    if (call->acquire.undone_units != 0) { /* the earlier call may have got its units */
        set->ran = true;
    } else if (!call->acquire.asked || !ran) { /* a copy may be on the other side of the move */
        rlock__in_flight_refuted(set);
    }
}

void rlock__acquire_withdraw(struct rlock__call *call, int64_t granted_until)
{
    if (call->acquire.queue != NULL) {
        rlock__queue_leave(call, granted_until);
    }
    if (call->channel != NULL && granted_until != 0) {
        rlock__channel_leave_granted(call);
    } else if (call->channel != NULL) {
        rlock__channel_leave(call);
    }
    if (call->acquire.entry != NULL) {
        rlock__entry_end(call);
    }
    assert(call->acquire.queue == NULL && call->channel == NULL);
}

void rlock__acquire_end(struct rlock__call *call, int code, int64_t now)
{
    struct rlock__hold *hold = call->hold;

    assert(hold == NULL || hold->turn == call);
    assert(call->acquire.look == NULL && !rlock__ack_is_open(&call->acquire.ack));
    /* a call has a view if it was granted the lock */
    assert((code == 0) == (call->view != NULL));
    assert(code != 0 || call->acquire.valid_until > now);
    if (rlock__explains(call)) {
        rlock__explain_end(call, code, now);
    }
    if (code != 0 && call->acquire.enqueued) { /* leaves the server's queue */
        call->acquire.enqueued = false;
        (void)rlock__recover_attempt(call, 0, false, now);
    }

    if (call->acquire.batch != NULL) {
        call->request = NULL;
        rlock__batch_leave(call);
    } else if (call->request != NULL) {
        call->request->subject = NULL;
        call->request = NULL;
    }
    rlock__acquire_withdraw(call, code == 0 ? call->acquire.valid_until : 0);
    call->acquire.ticket = rlock__ticket_free(call->core, call->acquire.ticket);
    if (code == 0 && !call->member) {
        rlock__histogram_add(&call->core->stats.wait, now - call->acquire.begun_at);
    }
    rlock__call_complete(call, code, NULL);
    if (hold != NULL) {
        rlock__hold_leave(hold, now);
    }
}

static const char *why_silent(const struct rlock__pipeline *pipeline)
{
    if (pipeline->close) {
        return pipeline->why;
    }
    return pipeline->up ? "no answer in time" : "not connected yet";
}

/* Whether the wait ran out while there was no connection. */
static bool is_out_of_reach(const struct rlock__call *call, int code)
{
    return code == RLOCK_ETIMEDOUT && !call->link->pipeline.up;
}

static void describe_out_of_reach(struct rlock__call *call, const char *name)
{
    const struct rlock__link *link = call->link;
    const char *trouble = call->core->trouble;
    bool known = link->code != 0;

    rlock__say(call, "lock %s: server %s%s%s%s%s", name,
               known ? link->error : link->server->address, known ? "" : ": ",
               known ? "" : why_silent(&link->pipeline), trouble != NULL ? "; " : "",
               trouble != NULL ? trouble : "");
}

void rlock__acquire_describe(struct rlock__call *call, int code, int64_t now)
{
    const struct rlock__link *link = call->link;
    const char *address = link->server->address;
    char name[96], holder[2 * RLOCK__FACT_SIZE];

    (void)rlock__spec_text(call->spec, name);
    (void)rlock__text(rlock__bytes_of(call->texts != NULL ? call->texts->facts.holder : ""), holder,
                      sizeof(holder));
    if (code != RLOCK_EBUSY && code != RLOCK_ETIMEDOUT) {
        rlock__say_free(call, 0);
    }
    if (code == RLOCK_EINDOUBT) {
        bool canceled = call->code == RLOCK_ECANCELED && !call->member;
        int64_t left = rlock__max(0, call->acquire.sent_at +
                                         rlock__acquire_lease(call, call->acquire.sent_at) - now);

        rlock__say_free(call, now + left);
        rlock__say(call,
                   "lock %s: %sno answer from server %s; if it was granted, it is free again in "
                   "%lld ms",
                   name, canceled ? "canceled; " : "", address, (long long)rlock__ms_up(left));
    } else if (code == RLOCK_ERESTARTED) {
        rlock__say(
            call, "lock %s: server %s restarted; it counts in %lld ms", name, address,
            (long long)rlock__ms_up(link->server->started_at + call->acquire.min_uptime_us - now));
    } else if (code == RLOCK_ENOTREPLICATED) { /* after a failover the grant may be back */
        int64_t left = rlock__free_by(now, rlock__acquire_lease(call, now)) - now;
        char lacking[120];

        assert(rlock__ack_is_open(&call->acquire.ack)); /* it knows which replicas lack it */
        (void)rlock__ack_lacking(&call->acquire.ack, lacking, sizeof(lacking));
        rlock__say(call,
                   "lock %s: %u of %u %s of server %s confirmed it%s%s; it was given back; "
                   "after a failover it is free in %lld ms",
                   name, call->acquire.confirmed, rlock__ack_size(&call->acquire.ack),
                   call->core->opts.acks_on_disk ? "disks" : "replicas", address,
                   lacking[0] != '\0' ? ", not " : "", lacking, (long long)rlock__ms_up(left));
    } else if (code == RLOCK_ECONN || code == RLOCK_EAUTH || code == RLOCK_ETLS ||
               is_out_of_reach(call, code)) {
        describe_out_of_reach(call, name);
    } else if (code == RLOCK_ETIMEDOUT && !call->acquire.contended && call->acquire.attempts > 0) {
        rlock__say(call, "lock %s: no answer from server %s within the wait", name, address);
    } else if (code == RLOCK_ENOMEM || !call->acquire.contended) {
        rlock__say(call, "lock %s: %s (server %s)", name, rlock_strerror(code), address);
    } else if (holder[0] == '\0') {
        rlock__say(call, "lock %s: %s (server %s)", name,
                   rlock__has_units(call->spec) ? "too few units are free" : "others wait for it",
                   address);
    } else {
        rlock__say(call, "lock %s: held by %s (server %s)", name, holder, address);
    }
}

/* Until when a call that gives up waits for the answer to its release. If its attempt was answered,
 * the release has the usual time for an answer. If the call was canceled, or its attempt is in
 * flight, it waits for a short grace only. */
static int64_t undo_until(const struct rlock__call *call, int64_t now)
{
    const struct rlock__pipeline *pipeline = &rlock__route(call->spec)->pipeline;
    int64_t until = now + RLOCK__GRACE_US;

    if (call->code == RLOCK_ECANCELED || call->request != NULL || !pipeline->up) {
        return until;
    }
    return rlock__max(
        until, rlock__min(rlock__acquire_last(call),
                          now + rlock__patience_us(&pipeline->patience, call->acquire.timeout_us)));
}

/* Notes which answers to the attempt would prove that nothing of the call is open. The recovery
 * itself learns that only from the answer to its release. */
static void note_what_ends(struct rlock__call *call)
{
    struct rlock__in_flight set = call->acquire.ticket->in_flight;

    call->acquire.refusal_ends = !rlock__in_flight_is_open(&set);
    if (call->request != NULL) {
        rlock__in_flight_answered(&set, call->link, call->acquire.gen);
        rlock__in_flight_refuted(&set);
        call->acquire.busy_ends = !rlock__in_flight_is_open(&set);
    }
}

void rlock__acquire_undo(struct rlock__call *call, int code, int64_t now)
{
    uint32_t outer = call->acquire.target - 1;

    assert(code != 0);
    assert(call->view == NULL);
    assert(call->hold->turn == call);
    assert(call->number != 0 && call->acquire.target > 0); /* something was asked for */
    assert(call->acquire.look == NULL);
    assert(!rlock__ack_is_open(&call->acquire.ack));
    if (rlock__explains(call)) {
        rlock__explain(call, now, "gives up, and takes back what it may have got");
    }
    rlock__call_step(call, RLOCK__GIVING_UP);
    call->acquire.asked_at = call->acquire.asked_at != 0 ? call->acquire.asked_at : now;
    call->code = code;
    call->acquire.enqueued = false; /* the release also leaves the server's queue */
    rlock__acquire_withdraw(call, 0);
    if (call->acquire.target > 1) { /* the attempt may have extended the outer levels' lease */
        rlock__grant_may_last(call->hold->grant,
                              rlock__free_by(now, rlock__acquire_lease(call, now)));
    }
    rlock__timer_set(&call->core->timers, &call->timer, undo_until(call, now));
    note_what_ends(call);
    rlock__recovery_doubt(rlock__recover_attempt(call, outer, true, now), call);
    assert(call->step == RLOCK__GIVING_UP);
    assert(call->timer.set); /* an answer may never come */
}

void rlock__acquire_refuse(struct rlock__call *call, int code, int64_t now)
{
    assert(code != 0);
    assert(call->step != RLOCK__GIVING_UP);
    assert(call->request == NULL && call->acquire.look == NULL);
    if (rlock__ticket_is_open(call->acquire.ticket)) {
        rlock__acquire_undo(call, code, now);
    } else {
        rlock__acquire_end(call, code, now);
    }
}

void rlock__acquire_starve(struct rlock__call *call, int64_t now)
{
    rlock__acquire_describe(call, RLOCK_ENOMEM, now);
    rlock__acquire_refuse(call, RLOCK_ENOMEM, now);
}

/* Ends a call that gives up if nothing of it is open: its recovery has nothing to release. */
static void end_if(struct rlock__call *call, bool nothing_is_open, int64_t now)
{
    struct rlock__ticket *ticket = call->acquire.ticket;

    assert(call->request == NULL);
    if (nothing_is_open) {
        ticket->doubt = rlock__doubt_close(ticket->doubt);
        rlock__recovery_forget(call);
        rlock__acquire_settled(call, now);
    }
}

void rlock__acquire_late_answer(struct rlock__call *call, const struct rlock__reply *reply,
                                int64_t now)
{
    bool partial = call->acquire.batch != NULL && call->acquire.batch->partial;
    bool error = reply != NULL && rlock__reply_is_error(reply);

    assert(call->step == RLOCK__GIVING_UP && call->code != 0);
    assert(call->request == NULL);
    if (error && !partial && !rlock__error_is(reply, RLOCK__ABORTED)) {
        rlock__acquire_late_refusal(call, now);
    } else if (reply != NULL && !error && !partial) {
        struct rlock__answer answer = call->spec->ops->read_acquire(call->spec, reply);

        if (answer.outcome == RLOCK__BUSY) {
            /* a copy may have run on the other side of the move */
            bool is_elsewhere = call->acquire.asked && call->acquire.ticket->in_flight.ran;

            rlock__proof_refused(call, answer.holder, now);
            end_if(call, call->acquire.busy_ends && !is_elsewhere, now);
        }
    }
}

void rlock__acquire_end_open(struct rlock__call *call, int64_t now)
{
    bool canceled = call->code == RLOCK_ECANCELED && !call->member;

    assert(call->step == RLOCK__GIVING_UP && call->code != 0);
    rlock__recovery_forget(call);
    rlock__acquire_describe(call, RLOCK_EINDOUBT, now);
    rlock__acquire_end(call, canceled ? RLOCK_ECANCELED : RLOCK_EINDOUBT, now);
}

void rlock__acquire_late_refusal(struct rlock__call *call, int64_t now)
{
    assert(call->step == RLOCK__GIVING_UP);
    end_if(call, call->acquire.refusal_ends, now);
}

/* Takes back the attempt. Returns whether a copy of it may have run, or may still run. */
static bool take_back(struct rlock__call *call)
{
    struct rlock__request *request = call->request;

    assert(request == NULL || call->step == RLOCK__ASKING);
    assert(request == NULL ||
           (call->acquire.look == NULL && !rlock__ack_is_open(&call->acquire.ack)));
    if (call->acquire.look != NULL ||
        rlock__ack_is_open(&call->acquire.ack)) { /* nothing says yet that the grant counts */
        call->acquire.look = call->acquire.look != NULL ? rlock__abandon(call->acquire.look) : NULL;
        rlock__ack_abandon(&call->acquire.ack);
        return true;
    }
    if (request == NULL) {
        return rlock__ticket_is_open(call->acquire.ticket);
    }
    rlock__acquire_note(call, request);
    if (request->sent) {
        call->request = request;
        request->resend = RLOCK__DROP; /* the pipeline still awaits its reply */
        return true;
    }
    if (call->acquire.batch != NULL) {
        rlock__batch_note(call->acquire.batch, request);
    }
    rlock__server_touch(request->link->server);
    rlock__pipeline_withdraw(&request->link->pipeline, request);
    (void)rlock__request_free(request);
    return rlock__ticket_is_open(call->acquire.ticket);
}

/* Whether the server's latest answer is the reason for the code. Its text is written already. */
static bool is_described(const struct rlock__call *call, int code)
{
    return call->described && !is_out_of_reach(call, code) &&
           (call->error != 0 ? code == call->error
                             : code == RLOCK_ETIMEDOUT && call->acquire.contended);
}

void rlock__acquire_give_up(struct rlock__call *call, int code, int64_t now)
{
    enum rlock__step step = call->step;

    assert(code != 0);
    assert(step != RLOCK__COMPLETE);
    if (step == RLOCK__LINED_UP) {
        rlock__hold_unline(call, now);
    }
    if (step != RLOCK__GIVING_UP) {
        if (!is_described(call, code)) {
            rlock__acquire_describe(call, code, now);
        }
        if (!take_back(call)) {
            rlock__acquire_end(call, code, now);
            return;
        }
        rlock__acquire_undo(call, code, now);
    }
    if (code == RLOCK_ECLOSED &&
        call->step == RLOCK__GIVING_UP) { /* closing the client waits for recoveries itself */
        rlock__recovery_forget(call);
        call->code = code;
        rlock__acquire_settled(call, now);
    }
}

void rlock__acquire_settled(struct rlock__call *call, int64_t now)
{
    assert(call->step == RLOCK__GIVING_UP && call->code != 0);
    rlock__acquire_end(call, call->code, now);
}

void rlock__acquire_cancel(struct rlock__call *call, int64_t now)
{
    call->cancelled = true;
    if (call->step == RLOCK__GIVING_UP) {
        call->code = RLOCK_ECANCELED;
        assert(call->timer.set); /* the call gets less time here, never more */
        rlock__acquire_describe(call, RLOCK_ECANCELED, now);
        rlock__timer_set(&call->core->timers, &call->timer,
                         rlock__min(call->timer.at, now + RLOCK__GRACE_US));
    } else if (call->step != RLOCK__COMPLETE) {
        rlock__acquire_give_up(call, RLOCK_ECANCELED, now);
    }
}

bool rlock__acquire_is_cut_off(struct rlock__call *call, int64_t now)
{
    struct rlock__link *link = rlock__route(call->spec);

    if (!call->prompt || !rlock__link_is_down(link)) {
        return false;
    }
    assert(call->step != RLOCK__GIVING_UP);
    assert(call->request == NULL);
    call->link = link;
    rlock__acquire_describe(call, link->code, now);
    rlock__acquire_refuse(call, link->code, now);
    return true;
}
