/* SPDX-License-Identifier: Apache-2.0 */
#include "lock/call/pass.h"

#include <assert.h>

#include "lock/hold/hold.h"
#include "lock/hold/queue.h"
#include "lock/hold/ticket.h"
#include "lock/server/channel.h"
#include "lock/server/route.h"

#define MOST_PASSES 60                /* passes of one hold */
#define MOST_PASSING (10 * RLOCK__MS) /* how long after the last request for its lease */

static bool may_pass(const struct rlock__spec *spec)
{
    return (spec->ops->caps & RLOCK__CAP_PASSES) != 0 && !spec->core->opts.no_pass;
}

/* Whether all levels of the hold are its owner's own, and renewed. */
static bool is_plain(const struct rlock__hold *hold)
{
    return hold->state == RLOCK__HOLD_HELD && hold->members == 0 && hold->renewals == 0 &&
           hold->provisional == 0 && hold->renewed_from == 1;
}

/* The hold of this client on the lock; NULL: there is none that may be passed. */
static struct rlock__grant *find(struct rlock__core *core, const struct rlock__spec *spec)
{
    struct rlock__hold *hold = may_pass(spec) ? rlock__hold_by_lock(core, spec, NULL) : NULL;

    /* another kind's, under the same name; or one that ends with a release that was sent */
    while (hold != NULL && (!may_pass(hold->spec) || hold->is_hidden)) {
        hold = rlock__hold_by_lock(core, spec, hold);
    }
    return hold != NULL && is_plain(hold) && !hold->grant->releasing ? hold->grant : NULL;
}

struct rlock__grant *rlock__pass_awaited(const struct rlock__call *call, int64_t now)
{
    struct rlock__grant *grant =
        call->acquire.queue != NULL && !call->member ? find(call->core, call->spec) : NULL;

    return grant != NULL && now < grant->valid_until ? grant : NULL;
}

void rlock__pass_doubt(struct rlock__core *core, const struct rlock__spec *spec, int64_t now)
{
    struct rlock__grant *grant = find(core, spec);

    if (grant != NULL && !grant->verifies) {
        rlock__grant_verify(grant, now);
    }
}

void rlock__pass_forbid(struct rlock__core *core, const struct rlock__spec *spec)
{
    struct rlock__grant *grant = find(core, spec);

    if (grant != NULL) {
        grant->passes = MOST_PASSES;
    }
}

/* Whether anything about the grant is open, failed or overdue at the server. */
static bool is_in_doubt(struct rlock__grant *grant, int64_t now)
{
    const struct rlock__link *link = grant->link;

    return grant->failures != 0 || now >= grant->due || grant->verifies || grant->unacked ||
           grant->ticket != NULL || grant->undone != NULL || grant->resent || grant->uneven ||
           rlock__grant_moved(grant) || link != rlock__route(grant->hold->spec) ||
           !link->pipeline.up || link->pipeline.close;
}

/* Whether the hold may be passed on. */
static bool may_go(const struct rlock__hold *hold, int64_t now)
{
    struct rlock__grant *grant = hold->grant;

    return may_pass(hold->spec) && !hold->spec->core->closed && is_plain(hold) &&
           hold->count == 1 && !grant->is_guarded && grant->passes < MOST_PASSES &&
           now < rlock__min(grant->leased_at + MOST_PASSING, grant->valid_until) &&
           !is_in_doubt(grant, now);
}

/* Whether a group of this client waits for the lock, or for one of the same name. A group is not in
 * the wait queue: only the message of a real release wakes it. */
static bool is_awaited_by_group(const struct rlock__spec *spec)
{
    const struct rlock__channel *channel =
        rlock__channel_find(rlock__route(spec)->server, spec->channel);

    return channel != NULL && channel->listeners != NULL;
}

/* Whether the call waits for a hold of this kind and lease, and none of its attempts is open. */
static bool may_take(const struct rlock__call *call, const struct rlock__spec *spec, int64_t now)
{
    bool waits = call->step == RLOCK__QUEUED || call->step == RLOCK__SUBSCRIBING ||
                 call->step == RLOCK__SLEEPING || call->step == RLOCK__PAUSING;

    return waits && call->spec->ops == spec->ops && call->acquire.lease_us == 0 && !call->member &&
           call->error == 0 && !call->acquire.enqueued &&
           call->spec->tuning->max_hold_us == spec->tuning->max_hold_us &&
           !rlock__ticket_is_open(call->acquire.ticket) && now < call->deadline;
}

/* Gives the grant of one row to the other row. */
static void exchange(struct rlock__hold *from, struct rlock__hold *to)
{
    struct rlock__grant *grant = from->grant;

    assert(from != to);
    assert(grant->hold == from);
    assert(to->grant == NULL || !to->grant->is_numbered); /* the row has no hold */
    from->grant = to->grant;
    if (from->grant != NULL) {
        from->grant->hold = from;
    }
    to->grant = grant;
    grant->hold = to;
}

static void take(struct rlock__call *call, int64_t now)
{
    struct rlock__hold *hold = call->hold;
    struct rlock__grant *grant = hold->grant;
    int64_t most = call->spec->tuning->max_hold_us;

    assert(grant->is_numbered); /* the server has the hold under that number */
    assert(hold->state == RLOCK__HOLD_NONE && hold->count == 0);
    assert(call->view == NULL);
    assert(call->request == NULL); /* an attempt might take the lock a second time */
    rlock__hold_state(hold, RLOCK__HOLD_HELD);
    hold->renewed_from = 1;
    rlock__hold_set_count(hold, 1);
    grant->passes++;
    call->core->stats.passes++;
    rlock__histogram_add(&call->core->stats.hold, now - grant->granted_at);
    grant->granted_at = now;
    grant->held_until = most != 0 ? rlock__later(now, most) : RLOCK__NEVER;
    atomic_store(&hold->view->valid_until, grant->valid_until);
    rlock__grant_plan(grant);
    call->number = grant->number;
    call->acquire.valid_until = grant->valid_until;
    call->acquire.lease_granted_us = grant->lease_us;
    call->count = 1;
    call->view = rlock__view_ref(hold->view);
    assert(call->acquire.valid_until > now);
    assert(grant->passes <= MOST_PASSES);
}

struct rlock__call *rlock__pass(struct rlock__hold *hold, int64_t now)
{
    struct rlock__call *call = may_go(hold, now) ? rlock__queue_heir(hold, now) : NULL;

    assert(hold->turn != NULL && hold->turn->kind == RLOCK__RELEASE);
    assert(hold->grant == NULL || hold->grant->release == NULL);
    if (call == NULL || !may_take(call, hold->spec, now) || is_awaited_by_group(hold->spec) ||
        !rlock__hold_view(call->hold, call->spec)) {
        return NULL;
    }
    assert(call->hold->turn == call && call->step != RLOCK__LINED_UP);
    exchange(hold, call->hold);
    rlock__hold_over(hold);
    take(call, now);
    assert(hold->state == RLOCK__HOLD_NONE && call->hold->state == RLOCK__HOLD_HELD);
    return call;
}
