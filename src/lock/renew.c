/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Renewal: each hold is due a third of its lease after its last success. What is due goes in
 * batches, one script call each, those whose validity ends first in front. Few batches are in
 * flight at a time, so that calls do not wait behind them; without a link what is due waits for
 * one. A renewal that failed is tried again until the hold's validity ends; "not yours" ends it at
 * once. Nothing is renewed past its validity, and nothing brings back what was lost.
 */
#include <stdlib.h>
#include <utlist.h>

#include "lock/internal.h"

struct batch {
    struct rlock__link *link;
    size_t n;
    struct rlock__hold *holds[RLOCK__BATCH]; /* NULL: ended meanwhile */
    int64_t lease_us[RLOCK__BATCH];
};

static int64_t whole_lease(const struct rlock__hold *hold)
{
    bool renewed = hold->renewed_from != 0 || hold->renewals > 0;

    return renewed ? hold->core->renewed_lease_us : hold->kept_us;
}

/* What a renewal now asks for: never past max_hold. */
static int64_t lease_of(const struct rlock__hold *hold, int64_t now)
{
    return rlock__min(whole_lease(hold), hold->held_until - now);
}

/* Whether a renewal now would extend the hold; if not, when it is due instead. */
static bool is_worth(struct rlock__hold *hold, int64_t now)
{
    if (rlock__valid_until(hold->core, now, lease_of(hold, now)) > hold->valid_until) {
        return true;
    }
    hold->due = lease_of(hold, now) < whole_lease(hold) /* what max_hold leaves grows no more */
                    ? RLOCK__NEVER
                    : hold->valid_until - 2 * (whole_lease(hold) / 3);
    return false;
}

void rlock__renew_timer(struct rlock__timer *timer, int64_t now)
{
    struct rlock__hold *hold =
        (struct rlock__hold *)(void *)((char *)timer - offsetof(struct rlock__hold, timer));

    if (hold->releasing && now < hold->free_by) {
        rlock__release_again(hold, now);
        return;
    }
    if (hold->releasing) {
        rlock__release_expired(hold, now);
        return;
    }
    if (now >= hold->valid_until) {
        rlock__hold_lose(hold, RLOCK_LOST_EXPIRED, now);
        return;
    }
    if (is_worth(hold, now)) {
        rlock__timer_set(&rlock__hold_route(hold)->due, &hold->urgency, hold->valid_until);
    }
    rlock__hold_plan(hold);
}

/* ---- Answers ---- */

/* Soon enough for several tries more in what is left of its validity. */
static void again(struct rlock__hold *hold, int64_t now)
{
    int64_t most = rlock__max((hold->valid_until - now) / 4, RLOCK__MS);

    hold->due = now + rlock__min(rlock__backoff(hold->core, hold->failures++), most);
    rlock__hold_plan(hold);
}

static void on_hold_answer(struct rlock__hold *hold, int64_t status, int64_t t0, int64_t lease_us,
                           int64_t now)
{
    if (hold->state != RLOCK__HOLD_HELD || hold->releasing) {
        return;
    }
    if (now >= hold->valid_until) { /* too late to count */
        rlock__hold_lose(hold, RLOCK_LOST_EXPIRED, now);
    } else if (status == 1) {
        hold->failures = 0;
        rlock__hold_set_valid(hold, t0, rlock__min(lease_us, hold->held_until - t0), now);
        rlock__hold_next_renewal(hold, t0, lease_us);
    } else if (status == 0 || status == -1) {
        rlock__hold_gone(hold, status == -1, now);
    } else {
        again(hold, now);
    }
}

/* Compares the server's clock with ours: notes whether it was set since the last renewal. */
static void check_clock(struct rlock__server *server, const struct rlock__reply *reply, int64_t t0,
                        int64_t now)
{
    int64_t clock = rlock__reply_int(reply, 0, 0) * RLOCK__SECOND + rlock__reply_int(reply, 1, 0);
    int64_t offset = clock - now, step = offset - server->clock_offset;
    int64_t margin = RLOCK__SECOND / 2 + (now - t0) + server->clock_slack;
    bool known = server->clock_offset != 0;

    server->clock_offset = offset;
    server->clock_slack = now - t0;
    if (!known || (step <= margin && step >= -margin)) {
        return;
    }
    if (step > margin) {
        server->stepped_at = now;
    }
    rlock__note(server->core, RLOCK_LOG_WARNING,
                "server %s: its clock was set by %lld ms: leases ended earlier or later",
                server->address, (long long)(step / RLOCK__MS));
}

static void on_answer(struct rlock__request *request, const struct rlock__reply *reply, int64_t now)
{
    struct batch *batch = request->subject;
    struct rlock__link *link = batch->link;
    bool good = reply != NULL && !rlock__reply_is_error(reply);
    char text[160];

    link->renewing--;
    if (good) {
        check_clock(link->server, reply, request->t0, now);
    }
    if (reply != NULL && rlock__reply_is_error(reply)) {
        rlock__note(link->server->core, RLOCK_LOG_WARNING,
                    "server %s: renewal failed, trying again: %s", link->server->address,
                    rlock__text(rlock__reply_str(reply, 0), text, sizeof(text)));
    }
    for (size_t i = 0; i < batch->n; i++) {
        struct rlock__hold *hold = batch->holds[i];

        if (hold == NULL) {
            continue;
        }
        hold->batch_entry = NULL;
        if (reply == NULL) { /* it may have run */
            int64_t free_by = rlock__free_by(now, batch->lease_us[i]);

            hold->free_by = rlock__max(hold->free_by, free_by);
        }
        on_hold_answer(hold, good ? rlock__reply_int(reply, i + 2, 2) : 2, request->t0,
                       batch->lease_us[i], now);
    }
    free(batch);
    (void)rlock__request_free(request);
}

/* ---- Batches ---- */

static struct rlock__hold *most_urgent(const struct rlock__link *link)
{
    struct rlock__timer *first = link->due.root;

    return first == NULL ? NULL
                         : (struct rlock__hold *)(void *)((char *)first -
                                                          offsetof(struct rlock__hold, urgency));
}

static void add(struct batch *batch, struct rlock__request *request, struct rlock__hold *hold,
                int64_t now)
{
    char owner[RLOCK__OWNER_SIZE];
    int64_t lease = lease_of(hold, now);
    struct rlock__ask ask = {.owner = rlock__owner_text(hold->core, hold->number, owner),
                             .count = hold->count,
                             .lease_ms = rlock__ms_up(lease)};

    batch->lease_us[batch->n] = lease;
    batch->holds[batch->n] = hold;
    hold->batch_entry = &batch->holds[batch->n++];
    hold->spec->ops->renew(hold->spec, &ask, &request->cmd);
    request->cmd.parts++;
}

/* Without memory: its holds are due again soon. */
static void drop_batch(struct batch *batch, int64_t now)
{
    for (size_t i = 0; i < batch->n; i++) {
        batch->holds[i]->batch_entry = NULL;
        again(batch->holds[i], now);
    }
    free(batch);
}

/* Takes the most urgent ones: those that share the first one's script into the batch, the others
 * stay due. */
static void fill(struct batch *batch, struct rlock__request *request, int64_t now)
{
    struct rlock__link *link = batch->link;
    const struct rlock__core *core = link->server->core;
    struct rlock__hold *hold, *others[RLOCK__BATCH];
    size_t n_others = 0, most = core->slice < RLOCK__BATCH ? core->slice : RLOCK__BATCH;

    for (size_t i = 0; i < most && (hold = most_urgent(link)) != NULL; i++) {
        rlock__timer_unset(&link->due, &hold->urgency);
        if (batch->n > 0 && hold->spec->ops->renew != batch->holds[0]->spec->ops->renew) {
            others[n_others++] = hold;
            continue;
        }
        if (is_worth(hold, now)) { /* still: it may have waited long */
            add(batch, request, hold, now);
        }
        rlock__hold_plan(hold);
    }
    while (n_others > 0) {
        hold = others[--n_others];
        rlock__timer_set(&link->due, &hold->urgency, hold->valid_until);
    }
}

/* Returns false without memory. */
static bool send_batch(struct rlock__link *link, int64_t now)
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
    request->resend = RLOCK__ONCE;
    if (!rlock__pipeline_submit(&link->pipeline, request, now)) {
        (void)rlock__request_free(request);
        drop_batch(batch, now);
        return true;
    }
    link->renewing++;
    return true;
}

/* On a long way more are on it at a time, or the way would say how many holds can live. */
static unsigned most_batches(const struct rlock__link *link)
{
    return RLOCK__BATCHES + (unsigned)rlock__min(link->pipeline.rtt / (4 * RLOCK__MS), 60);
}

bool rlock__renew_is_ready(const struct rlock__link *link)
{
    return link->due.root != NULL && link->pipeline.up && link->renewing < most_batches(link);
}

void rlock__renew_flush(struct rlock__link *link, int64_t now)
{
    struct rlock__core *core = link->server->core;

    for (int i = 0; i < RLOCK__BATCHES && rlock__renew_is_ready(link); i++) {
        if (!send_batch(link, now)) {
            break;
        }
    }
    if (rlock__renew_is_ready(link)) {
        core->resume_at = rlock__max(core->resume_at, now + RLOCK__REST_US);
    }
}
