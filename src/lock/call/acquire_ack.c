/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A grant that counts once enough replicas have it. After the grant the call sends a no-op renewal
 * over a link for acknowledgements. That is a write too, and a replica that has it has the grant.
 * If too few replicas have it, the call gives the grant back, and tries again while it has time.
 * This file also checks a grant from behind ASKING, which counts if the slot is still being moved.
 */
#include "lock/call/acquire.h"
#include "lock/common.h"
#include "lock/hold/hold.h"

#include <assert.h>
#include <stdio.h>

#include "lock/call/explain.h"
#include "lock/server/classify.h"
#include "lock/server/hop.h"
#include "lock/server/listing.h"
#include "lock/server/route.h"
#include "lock/server/send.h"

/* Gives the grant back. The call may use all the time it has for that. */
static void undo(struct rlock__call *call, int code, int64_t now)
{
    int64_t until =
        rlock__min(rlock__acquire_last(call), rlock__later(now, call->core->opts.op_timeout_us));

    rlock__acquire_undo(call, code, now);
    assert(call->timer.set); /* the call gets more time here, never less */
    if (call->step == RLOCK__GIVING_UP && until > call->timer.at) {
        rlock__timer_set(&call->core->timers, &call->timer, until);
    }
}

/* The grant does not count. The call's detail has the reason. */
static void fail(struct rlock__call *call, int code, int64_t now)
{
    bool alone = call->acquire.target == 1 && call->acquire.batch == NULL;

    assert(call->step == RLOCK__ASKING);
    assert(rlock__ack_is_open(&call->acquire.ack));
    rlock__ack_leave(&call->acquire.ack);
    if (call->acquire.wait_us != 0 && code == RLOCK_ENOTREPLICATED && alone) {
        rlock__acquire_retry(call, code, now);
    } else {
        undo(call, code, now);
    }
}

static void fail_unconfirmed(struct rlock__call *call, const struct rlock__waited *waited,
                             int64_t now)
{
    call->acquire.confirmed = rlock__ack_count(&call->acquire.ack, waited);
    rlock__acquire_describe(call, RLOCK_ENOTREPLICATED, now);
    fail(call, RLOCK_ENOTREPLICATED, now);
}

static void fail_refused(struct rlock__call *call, const char *command,
                         const struct rlock__reply *error, int64_t now)
{
    struct rlock__class class = rlock__core_classify(call->core, error);
    char name[96], why[RLOCK__REFUSAL_SIZE];

    rlock__say(call, "lock %s: %s", rlock__spec_text(call->spec, name),
               rlock__refusal(call->spec, call->link->server, error, command, why));
    fail(call, class.way == RLOCK__GIVE_UP ? class.code : RLOCK_ENOTREPLICATED, now);
}

/* The hold to which the call added a level is gone. */
static void fail_lost(struct rlock__call *call, bool taken, int64_t now)
{
    rlock__ack_leave(&call->acquire.ack);
    rlock__hold_gone(call->hold, taken, now);
    rlock__acquire_describe(call, RLOCK_ELOST, now);
    rlock__acquire_refuse(call, RLOCK_ELOST, now);
}

static void confirm(struct rlock__call *call, int64_t now);

static void on_decided(struct rlock__ack *ack, const struct rlock__waited *waited, int64_t now)
{
    struct rlock__call *call = RLOCK__OF(struct rlock__call, acquire.ack, ack);

    assert(call->step == RLOCK__ASKING);
    assert(ack->ran && ack->request == NULL); /* only then a WAIT covers it */
    assert(call->request == NULL && call->acquire.look == NULL);
    if (rlock__ack_is_enough(ack, waited)) {
        rlock__ack_leave(ack);
        rlock__acquire_granted(call, call->acquire.token, call->acquire.granted_t0, now);
        return;
    }
    if (rlock__ack_is_eased(ack, waited) && now < call->deadline) {
        rlock__ack_leave(ack);
        confirm(call, now);
        return;
    }
    rlock__acks_failed(ack, waited);
    if (waited != NULL && waited->error != NULL) {
        fail_refused(call, call->core->opts.acks_on_disk ? "WAITAOF" : "WAIT", waited->error, now);
    } else {
        fail_unconfirmed(call, waited, now);
    }
}

static void on_extended(struct rlock__request *request, const struct rlock__reply *reply,
                        int64_t now)
{
    struct rlock__call *call = request->subject;
    bool asking = request->asking;
    int64_t status;

    assert(call == NULL || call->acquire.ack.request == request); /* confirm() set it */
    assert(call == NULL || call->step == RLOCK__ASKING);
    if (call != NULL && reply != NULL) {
        (void)rlock__hop_learn(request->link, reply);
    }
    status = reply != NULL ? rlock__reply_int(reply, 2, 0) : 0;
    if (status == 1) {
        rlock__listing_wrote(request->link->server, request->t0);
    }
    (void)rlock__request_free(request);
    if (call == NULL) {
        return;
    }
    if (reply != NULL && rlock__reply_is_error(reply)) {
        fail_refused(call, NULL, reply, now);
    } else if (reply != NULL && status < 1 && call->acquire.target > 1 && !asking) {
        fail_lost(call, status == -1, now);
    } else if (status != 1) { /* the lease has ended, there is no answer, or the key is back */
        fail_unconfirmed(call, NULL, now);
    } else {
        rlock__ack_ran(&call->acquire.ack);
    }
}

/* A renewal that extends nothing: it asks for what is left of the lease. */
static void extend(struct rlock__call *call, struct rlock__request *request, int64_t now)
{
    char owner[RLOCK__OWNER_SIZE];
    int64_t end = call->acquire.granted_t0 + rlock__acquire_lease(call, call->acquire.granted_t0);
    struct rlock__args args = {.owner = rlock__owner_text(call->core, call->number, owner),
                               .count = call->acquire.target,
                               .units = rlock__call_units(call),
                               .lease_ms = rlock__ms_up(rlock__max(end - now, RLOCK__MS))};

    assert(call->number != 0 && call->acquire.target > 0);
    request->resend = RLOCK__ONCE;
    call->spec->ops->renew(call->spec, &args, &request->cmd);
    request->cmd.parts = 1;
}

/* Sends a no-op renewal of the grant, which replicas have to acknowledge. */
static void confirm(struct rlock__call *call, int64_t now)
{
    struct rlock__request *request = rlock__request_new(&call->core->requests, on_extended, call);

    assert(call->step == RLOCK__ASKING);
    assert(call->request == NULL && call->acquire.look == NULL);
    if (request == NULL) {
        rlock__acquire_describe(call, RLOCK_ENOMEM, now);
        rlock__acquire_undo(call, RLOCK_ENOMEM, now);
        return;
    }
    extend(call, request, now);
    call->acquire.confirmed = 0;
    rlock__ack_begin(&call->acquire.ack, call->link->server, call->spec, request, on_decided);
    assert(call->acquire.ack.request == request); /* on_extended() */
    assert(!call->acquire.ack.ran);               /* on_decided() */
    rlock__timer_set(&call->core->timers, &call->timer, rlock__acquire_until(call));
}

void rlock__acquire_taken(struct rlock__call *call, uint64_t token, int64_t t0, int64_t now)
{
    struct rlock__server *server = call->link->server;

    assert(server != NULL);
    assert(call->step == RLOCK__ASKING);
    assert(call->request == NULL && call->acquire.look == NULL);
    assert(!rlock__ack_is_open(&call->acquire.ack));
    rlock__listing_wrote(server, t0);
    if (rlock__acks_needed(server) == 0) {
        rlock__acquire_granted(call, token, t0, now);
        return;
    }
    if (rlock__explains(call)) {
        rlock__explain(call, now, "has a grant, and waits for replicas of server %s to have it",
                       server->address);
    }
    call->acquire.token = token;
    call->acquire.granted_t0 = t0;
    confirm(call, now);
}

/* ---- A grant from behind ASKING ---- */

/* A grant from behind ASKING does not count: the key may be on its way, or back. */
static void describe_moving(struct rlock__call *call)
{
    char name[96];

    rlock__say(call, "lock %s: slot %u is being moved (server %s)",
               rlock__spec_text(call->spec, name), call->spec->slot, call->link->server->address);
}

/*
 * A grant from behind ASKING counts if the server that the slot map names still redirects to the
 * server that gave it. If the move was called off meanwhile, or the slot came back, the server in
 * the map grants the lock to others as well.
 */
static void on_looked(struct rlock__request *request, const struct rlock__reply *reply, int64_t now)
{
    struct rlock__call *call = request->subject;
    struct rlock__server *named = reply != NULL ? rlock__hop_learn(request->link, reply) : NULL;

    assert(call == NULL || call->acquire.look == request);
    (void)rlock__request_free(request);
    if (call == NULL) {
        return;
    }
    call->acquire.look = NULL;
    assert(call->step == RLOCK__ASKING);
    assert(call->acquire.asked); /* its grant came from behind ASKING */
    if (named == call->link->server) {
        rlock__acquire_taken(call, call->acquire.token, call->acquire.granted_t0, now);
        return;
    }
    describe_moving(call);
    rlock__acquire_retry(call, RLOCK_EREFUSED, now);
}

void rlock__acquire_look(struct rlock__call *call, const struct rlock__answer *answer, int64_t t0,
                         int64_t now)
{
    struct rlock__request *request = rlock__request_new(&call->core->requests, on_looked, call);

    assert(answer->outcome == RLOCK__DONE);
    assert(call->step == RLOCK__ASKING);
    assert(call->acquire.asked);
    assert(call->request == NULL && call->acquire.look == NULL);
    call->acquire.token = answer->token;
    call->acquire.granted_t0 = t0;
    call->acquire.look = request;
    if (request != NULL) {
        request->resend = RLOCK__ONCE;
        call->spec->ops->inspect(call->spec, &request->cmd);
    }
    if (request == NULL || !rlock__submit(request, call->spec, rlock__route(call->spec), now)) {
        call->acquire.look = rlock__request_free(request);
        rlock__acquire_describe(call, RLOCK_ENOMEM, now);
        rlock__acquire_undo(call, RLOCK_ENOMEM, now);
    }
}
