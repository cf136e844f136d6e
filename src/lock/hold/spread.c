/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When renewals go out. Holds that were taken together are due together. A server that got all
 * their renewals at once would keep all calls waiting meanwhile. So a link rests after each batch:
 * for three quarters of the period, times the batch's share of the link's holds. Thus all holds are
 * renewed within three quarters of a period. They keep that distance from then on, since each is
 * due a period after its last renewal. Urgent renewals do not wait for the rest: a hold near the
 * end of its validity, a retry, a hold that is verified on another server. On a link with few holds
 * the rest has a limit.
 *
 * Only a few batches are in flight at a time, so that calls do not wait behind them.
 */
#include "lock/hold/renew.h"

#include <assert.h>

#include "lock/server/route.h"

#define SLOTS_AT_ONCE 100 /* batches in flight on a link of a cluster */
#define LONGEST_REST 100  /* the longest rest is this part of a period */
#define LONGEST_LAG 20    /* a link makes up for a delay of this part at most */

/* A link with a long round trip has more batches in flight. Otherwise the round trip would limit
 * how many holds it can renew. A link of a cluster has more too, because a batch there has one slot
 * and mostly one hold. */
static unsigned most_batches(const struct rlock__link *link)
{
    if (link->server->core->driver.slot != NULL) {
        return SLOTS_AT_ONCE;
    }
    return RLOCK__BATCHES + (unsigned)rlock__min(link->pipeline.rtt / (4 * RLOCK__MS), 60);
}

static bool is_up(const struct rlock__link *link)
{
    return rlock__acks_needed(link->server) == 0 ? link->pipeline.up
                                                 : rlock__acks_is_ready(link->server);
}

static int64_t period(const struct rlock__link *link)
{
    return link->server->core->opts.renewed_lease_us / 3;
}

/* When the next batch may go out; RLOCK__NEVER: no hold is due, the link is not up, or an answer
 * has to come before. */
static int64_t next(const struct rlock__link *link)
{
    if (link->due.root == NULL || !is_up(link) || link->renewing >= most_batches(link)) {
        return RLOCK__NEVER;
    }
    return rlock__min(link->rests_until, link->due.root->at - period(link));
}

void rlock__renew_rest(struct rlock__link *link, size_t n, int64_t now)
{
    int64_t holds = rlock__max(link->n_granted, 1);
    int64_t rest =
        rlock__min(period(link) * (int64_t)n / holds * 3 / 4, period(link) / LONGEST_REST);

    assert(link->n_granted >= 0);
    assert(n <= RLOCK__BATCH);
    assert(link->renewing > 0); /* this batch */
    /* A late batch shortens the next rest. Otherwise all would be urgent on a busy machine. */
    link->rests_until = rlock__max(link->rests_until, now - period(link) / LONGEST_LAG) + rest;
}

void rlock__renew_begin(struct rlock__link *link, int64_t now)
{
    assert(link->n_granted > 0); /* at least the hold that is due */
    if (link->due.root == NULL) {
        link->rests_until = rlock__max(link->rests_until, now);
    }
}

/* When the link's timer has to fire. */
static int64_t due_at(const struct rlock__link *link)
{
    return rlock__min(next(link), rlock__timers_next(&link->due));
}

bool rlock__renew_is_planned(const struct rlock__link *link)
{
    return (link->renewal.set ? link->renewal.at : RLOCK__NEVER) == due_at(link);
}

void rlock__renew_plan(struct rlock__link *link)
{
    if (link->due.root == NULL && !link->renewal.set) { /* no hold waits for its renewal */
        return;
    }
    if (!rlock__renew_is_planned(link)) {
        rlock__timer_set(&link->server->core->renewals, &link->renewal, due_at(link));
    }
    assert(rlock__renew_is_planned(link));
}

int64_t rlock__renew_next(const struct rlock__core *core)
{
    return rlock__timers_next(&core->renewals);
}

size_t rlock__renewals_expire(struct rlock__core *core, size_t most, int64_t now)
{
    size_t n = 0;

    while (n < most && rlock__renew_next(core) <= now) {
        struct rlock__link *link = RLOCK__OF(struct rlock__link, renewal, core->renewals.root);

        assert(link->renewal.set && link->server->core == core);
        rlock__timer_unset(&core->renewals, &link->renewal); /* the end of the event sets it */
        rlock__server_touch(link->server);
        n += rlock__timers_fire(&link->due, now, most - n);
    }
    return n;
}

void rlock__renew_flush(struct rlock__link *link, int64_t now)
{
    struct rlock__core *core = link->server->core;

    assert(link->server->is_touched); /* so the end of the event sets its timer again */
    for (int i = 0; i < RLOCK__BATCHES && next(link) <= now; i++) {
        if (!rlock__renew_some(link, now)) {
            break;
        }
    }
    if (next(link) <= now) {
        core->resume_at = rlock__max(core->resume_at, now + RLOCK__REST_US);
    }
}
