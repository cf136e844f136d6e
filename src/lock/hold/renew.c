/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Renewal: a hold is due a third of its lease after its last success. Holds that are due share
 * batches of one script call; the validity that ends first comes first. spread.c says when a batch
 * goes out. While the link is down, due holds wait. A failed renewal is tried again until the
 * validity ends. "Not yours" ends the hold at once. No hold is renewed past its validity, and
 * nothing brings back a lost hold. If replicas acknowledge, a renewal counts if enough have it.
 */
#include <assert.h>
#include <stdlib.h>
#include <utlist.h>

#include "lock/common.h"
#include "lock/hold/hold.h"
#include "lock/hold/renew.h"
#include "lock/server/classify.h"
#include "lock/server/hop.h"
#include "lock/server/listing.h"
#include "lock/server/route.h"
#include "lock/server/send.h"

#define MISFITS 16 /* grants that one batch skips at most */
#define ALONE 6    /* a minute, if the lease is 30 s */
#define UNKNOWN 2  /* there is no answer for the grant, or the renewal does not count */
#define REFUSED 3  /* the server did nothing */

struct batch {
    struct rlock__link *link;
    struct rlock__spec *spec; /* a reference to the first grant's, which may be freed */
    size_t n;
    struct rlock__grant *grants[RLOCK__BATCH]; /* NULL: the hold is over */
    int64_t lease_us[RLOCK__BATCH];
    bool verifies; /* it has a grant to verify, or a short one: more may follow at once */
    struct rlock__ack ack;
    int64_t t0; /* its leases count from here; set once it ran */
};

static void free_batch(struct batch *batch)
{
    (void)rlock__spec_unref(batch->spec);
    free(batch);
}

/* Why the grant's validity has ended. */
static enum rlock_reason why_over(const struct rlock__grant *grant)
{
    return grant->unacked ? RLOCK_LOST_NOT_REPLICATED : RLOCK_LOST_EXPIRED;
}

void rlock__renew_due(struct rlock__grant *grant, int64_t now)
{
    assert(grant->hold->state == RLOCK__HOLD_HELD);
    if (now >= grant->valid_until) {
        rlock__hold_lose(grant->hold, why_over(grant), now);
        return;
    }
    if (rlock__renewal_is_worth(grant, now)) {
        rlock__renew_begin(rlock__grant_route(grant), now);
        rlock__grant_wait(grant, true);
        rlock__server_need(grant->link->server, now);
    }
    rlock__grant_plan(grant);
}

/* ---- Answers ---- */

/* Plans another try, soon enough for several more before the validity ends. */
static void again(struct rlock__grant *grant, int64_t now)
{
    int64_t most = rlock__max((grant->valid_until - now) / 4, RLOCK__MS);

    grant->due = now + rlock__min(rlock__backoff(grant->hold->spec->core, grant->failures++), most);
    grant->link->rests_until = now;
    rlock__server_touch(grant->link->server);
    rlock__grant_plan(grant);
}

/* status: the script's answer for the grant, REFUSED, or UNKNOWN. */
static void on_grant_answer(struct rlock__grant *grant, int64_t status, int64_t t0,
                            int64_t lease_us, int64_t now)
{
    if (grant->hold->state != RLOCK__HOLD_HELD || grant->releasing) {
        return;
    }
    if (now >= grant->valid_until) { /* too late to count */
        rlock__hold_lose(grant->hold, why_over(grant), now);
    } else if (status == 1 && !(rlock__renewal_is_old(grant) && grant->uneven)) {
        if (grant->extensions == NULL && !grant->is_short && rlock__hold_is_renewed(grant->hold)) {
            rlock__renewal_note_late(grant, lease_us, now);
        }
        grant->hold->spec->core->stats.renewals++;
        grant->failures = 0;
        if (grant->alone > 0) {
            grant->alone--;
        }
        grant->unacked = grant->is_short = false;
        rlock__grant_seen(grant);
        rlock__grant_set_valid(grant, t0, rlock__min(lease_us, grant->held_until - t0), now);
        rlock__grant_due(grant, t0, lease_us);
        rlock__extensions_granted(grant, lease_us, now);
        rlock__grant_plan(grant);
    } else if ((status == 0 || status == -1) && !rlock__renewal_is_old(grant)) {
        rlock__hold_gone(grant->hold, status == -1, now);
    } else {
        grant->hold->spec->core->stats.failed_renewals++;
        rlock__extensions_failed(grant, status == UNKNOWN || rlock__renewal_is_old(grant));
        again(grant, now);
    }
}

static rlock__ack_fn on_decided;

/* Sends a batch of one hold on to the server that has the key, unless the hold is being released.
 * "Not there" from behind ASKING counts only if the server of the slot map says so too. */
static bool hops(struct rlock__request *request, const struct rlock__reply *reply, int64_t now)
{
    struct batch *batch = request->subject;
    bool gone = reply != NULL && !rlock__reply_is_error(reply) && rlock__reply_int(reply, 2, 2) < 1;
    const struct rlock__grant *grant = batch->grants[0];
    bool alone = batch->n == 1 && grant != NULL && !grant->releasing;

    if (batch->n > 1 && reply != NULL) {
        (void)rlock__hop_learn(request->link, reply);
    }
    if (!alone || !(rlock__hop(request, reply, now) || (gone && rlock__hop_home(request, now)))) {
        return false;
    }
    rlock__ack_follow(&batch->ack, request, on_decided);
    batch->link->renewing--;
    batch->link = request->link;
    batch->link->renewing++;
    return true;
}

/* Takes the server's answer for one hold of the batch. counts: a success counts. */
static void settle_one(struct batch *batch, size_t i, int64_t status, bool counts, int64_t now)
{
    struct rlock__grant *grant = batch->grants[i];

    assert(grant->batch_entry == &batch->grants[i]);
    batch->grants[i] = NULL;
    grant->batch_entry = NULL;
    if (!counts || grant->releasing) { /* a copy may have run as late as now */
        rlock__grant_may_last(grant, rlock__free_by(now, batch->lease_us[i]));
    }
    on_grant_answer(grant, status == 1 && !counts ? UNKNOWN : status, batch->t0, batch->lease_us[i],
                    now);
}

/* Takes the answer for the holds that the batch renewed, and frees it. */
static void settle(struct batch *batch, bool counts, int64_t now)
{
    assert(batch->link->renewing > 0);
    batch->link->renewing--;
    for (size_t i = 0; i < batch->n; i++) {
        if (batch->grants[i] != NULL) {
            settle_one(batch, i, 1, counts, now);
        }
    }
    free_batch(batch);
}

static void on_decided(struct rlock__ack *ack, const struct rlock__waited *waited, int64_t now)
{
    struct batch *batch = RLOCK__OF(struct batch, ack, ack);
    bool enough = rlock__ack_is_enough(ack, waited);

    if (!enough) {
        rlock__acks_failed(ack, waited);
    }
    rlock__ack_leave(ack);
    settle(batch, enough, now);
}

/* Takes the answer for each hold that was not renewed. Returns whether the other holds are left. */
static bool settle_others(struct batch *batch, const struct rlock__reply *reply, int64_t now)
{
    bool good = reply != NULL && !rlock__reply_is_error(reply);
    bool scattered = reply != NULL && rlock__error_is(reply, RLOCK__SCATTERED);
    bool refused = reply != NULL && !good && !rlock__error_is(reply, RLOCK__ABORTED);

    for (size_t i = 0; i < batch->n; i++) {
        int64_t status = good      ? rlock__reply_int(reply, i + 2, UNKNOWN)
                         : refused ? REFUSED
                                   : UNKNOWN;
        struct rlock__grant *grant = batch->grants[i];

        if (grant != NULL && status != 1) {
            grant->alone = scattered ? ALONE : grant->alone;
            if (reply == NULL) { /* an unfenced copy may run until the lease ends */
                rlock__grant_may_last(grant, rlock__free_by(now, 2 * batch->lease_us[i]));
            }
            settle_one(batch, i, status, good || refused, now);
        } else if (grant != NULL) {
            grant->unacked = rlock__ack_is_open(&batch->ack);
        }
    }
    return good;
}

/* The server answered with an error. Calls that extend one of the holds hear of it. A refusal for
 * good may be meant for another hold of the batch: then each is tried alone. */
static void on_refused(struct batch *batch, const struct rlock__reply *reply)
{
    const struct rlock__server *server = batch->link->server;
    struct rlock__class class = rlock__core_classify(server->core, reply);
    char why[RLOCK__REFUSAL_SIZE];

    for (size_t i = 0; i < batch->n; i++) {
        struct rlock__grant *grant = batch->grants[i];

        if (grant != NULL && grant->extensions != NULL) {
            grant->alone = batch->n > 1 ? ALONE : grant->alone;
            (void)rlock__refusal(grant->hold->spec, server, reply, NULL, why);
            rlock__extensions_refused(grant, class.code,
                                      class.way == RLOCK__GIVE_UP && batch->n == 1, why);
        }
    }
}

/* A renewed hold is a write to the server. */
static void note_written(const struct batch *batch, const struct rlock__request *request,
                         const struct rlock__reply *reply)
{
    bool any = false;

    for (size_t i = 0; i < batch->n; i++) {
        any = any || rlock__reply_int(reply, i + 2, 0) == 1;
    }
    if (any) {
        rlock__listing_wrote(request->link->server, request->t0);
    }
}

static void on_answer(struct rlock__request *request, const struct rlock__reply *reply, int64_t now)
{
    struct batch *batch = request->subject;
    struct rlock__server *server = request->link->server;
    char text[160];

    assert(request->cmd.parts == batch->n); /* see rlock__renew_some() */
    if (hops(request, reply, now)) {
        return;
    }
    batch->t0 = rlock__hop_t0(request);
    if (reply != NULL && rlock__reply_is_error(reply)) {
        rlock__note(server->core, RLOCK_LOG_WARNING, rlock__about("renewal", server->address, 0),
                    "server %s: renewal failed, trying again: %s", server->address,
                    rlock__text(rlock__reply_str(reply, 0), text, sizeof(text)));
        on_refused(batch, reply);
    } else if (reply != NULL) {
        rlock__server_told_time(server, rlock__reply_int(reply, 0, 0),
                                rlock__reply_int(reply, 1, 0), request->t0, now);
        note_written(batch, request, reply);
    }
    (void)rlock__request_free(request);
    if (settle_others(batch, reply, now) && rlock__ack_is_open(&batch->ack)) {
        rlock__ack_ran(&batch->ack);
        return;
    }
    rlock__ack_leave(&batch->ack);
    settle(batch, true, now);
}

/* ---- Batches ---- */

static void add(struct batch *batch, struct rlock__request *request, struct rlock__grant *grant,
                int64_t now)
{
    const struct rlock__hold *hold = grant->hold;
    char owner[RLOCK__OWNER_SIZE];
    int64_t lease = rlock__renewal_lease(grant, now);
    struct rlock__args args = {.owner = rlock__owner_text(hold->spec->core, grant->number, owner),
                               .count = hold->count,
                               .units = rlock__hold_units(hold, hold->count - hold->leaves.n),
                               .held_units = rlock__renewal_units(grant),
                               .lease_ms = rlock__ms_up(lease)};

    assert(grant->batch_entry == NULL && batch->n < RLOCK__BATCH && lease > 0);
    assert(grant->is_numbered && !grant->releasing);
    batch->verifies |= grant->verifies || grant->is_short;
    if (rlock__units_of(hold) != NULL) {
        hold->units->renewal_is_old = false;
    }
    batch->lease_us[batch->n] = lease;
    batch->grants[batch->n] = grant;
    rlock__extensions_send(grant, lease);
    grant->batch_entry = &batch->grants[batch->n++];
    hold->spec->ops->renew(hold->spec, &args, &request->cmd);
    request->cmd.parts++;
}

/* There was no memory to send it: its grants are due again soon. */
static void drop_batch(struct batch *batch, int64_t now)
{
    for (size_t i = 0; i < batch->n; i++) {
        batch->grants[i]->batch_entry = NULL;
        rlock__extensions_failed(batch->grants[i], false);
        again(batch->grants[i], now);
    }
    free_batch(batch);
}

/* Whether the grant may join the batch. While a slot moves, one missing key makes the server refuse
 * the whole batch. So after that its grants are renewed alone a few times. */
static bool fits(const struct batch *batch, const struct rlock__grant *grant)
{
    const struct rlock__grant *first = batch->n > 0 ? batch->grants[0] : NULL;

    return first == NULL || (first->hold->spec->ops->renew == grant->hold->spec->ops->renew &&
                             first->hold->spec->slot == grant->hold->spec->slot &&
                             first->alone == 0 && grant->alone == 0);
}

/* Takes the most urgent grants that fit into one batch; the others stay due. */
static void fill(struct batch *batch, struct rlock__request *request, int64_t now)
{
    struct rlock__timers *due = &batch->link->due;
    const struct rlock__core *core = batch->link->server->core;
    struct rlock__grant *others[MISFITS];
    size_t n_others = 0, most = core->opts.slice < RLOCK__BATCH ? core->opts.slice : RLOCK__BATCH;

    for (size_t i = 0; i < most && n_others < MISFITS && due->root != NULL; i++) {
        struct rlock__grant *grant = RLOCK__OF(struct rlock__grant, timer, due->root);

        rlock__grant_wait(grant, false);
        if (!fits(batch, grant)) {
            others[n_others++] = grant;
            continue;
        }
        /* the grant may have waited for a link until its lease ended */
        if (now < grant->valid_until && rlock__renewal_is_worth(grant, now)) {
            add(batch, request, grant, now);
        }
        rlock__grant_plan(grant);
    }
    while (n_others > 0) {
        struct rlock__grant *grant = others[--n_others];

        rlock__grant_wait(grant, true);
        rlock__grant_plan(grant);
    }
}

/* Hands the request to a link. Returns false without memory. */
static bool submit(struct batch *batch, struct rlock__request *request, int64_t now)
{
    struct rlock__server *server = batch->link->server;

    if (rlock__acks_needed(server) == 0) {
        return rlock__submit(request, batch->spec, batch->link, now);
    }
    rlock__ack_begin(&batch->ack, server, batch->spec, request, on_decided);
    return true;
}

bool rlock__renew_some(struct rlock__link *link, int64_t now)
{
    struct batch *batch = calloc(1, sizeof(*batch));
    struct rlock__request *request =
        rlock__request_new(&link->server->core->requests, on_answer, batch);

    if (batch != NULL && request != NULL) {
        batch->link = link;
        fill(batch, request, now);
    }
    if (batch == NULL || request == NULL || batch->n == 0) {
        bool good = batch != NULL && request != NULL;

        free(batch);
        (void)rlock__request_free(request);
        return good;
    }
    batch->spec = rlock__spec_ref(batch->grants[0]->hold->spec);
    request->resend = RLOCK__ONCE;
    request->acked = true;
    assert(request->cmd.parts == batch->n); /* the answer has as many parts */
    if (!submit(batch, request, now)) {
        (void)rlock__request_free(request);
        drop_batch(batch, now);
        return true;
    }
    link->renewing++;
    rlock__renew_rest(link, batch->verifies ? 0 : batch->n, now);
    return true;
}
