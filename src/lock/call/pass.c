/* SPDX-License-Identifier: Apache-2.0 */
#include "lock/call/pass.h"

#include <assert.h>

#include "lock/call/calls.h"
#include "lock/common.h"
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

/* The hold of this client on the lock that lingers; NULL: none does. */
static struct rlock__hold *lingering(struct rlock__core *core, const struct rlock__spec *spec)
{
    struct rlock__hold *hold =
        core->rows.n_lingering != 0 ? rlock__hold_by_lock(core, spec, NULL) : NULL;

    while (hold != NULL && !hold->grant->lingers) {
        hold = rlock__hold_by_lock(core, spec, hold);
    }
    return hold;
}

void rlock__pass_yield(struct rlock__core *core, const struct rlock__spec *spec, int64_t now)
{
    struct rlock__hold *hold = lingering(core, spec);

    if (hold != NULL) {
        rlock__release_due(hold, now);
    }
}

void rlock__pass_forbid(struct rlock__core *core, const struct rlock__spec *spec, int64_t now)
{
    struct rlock__grant *grant = find(core, spec);

    if (grant != NULL) {
        grant->passes = MOST_PASSES;
    }
    rlock__pass_yield(core, spec, now);
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

/* Whether the call wants a hold of this kind and lease, as one level of its own. */
static bool is_alike(const struct rlock__call *call, const struct rlock__spec *spec)
{
    return call->spec->ops == spec->ops && call->acquire.lease_us == 0 && !call->member &&
           call->spec->tuning->max_hold_us == spec->tuning->max_hold_us;
}

/* Whether the call waits for such a hold, and none of its attempts is open. */
static bool may_take(const struct rlock__call *call, const struct rlock__spec *spec, int64_t now)
{
    bool waits = call->step == RLOCK__QUEUED || call->step == RLOCK__SUBSCRIBING ||
                 call->step == RLOCK__SLEEPING || call->step == RLOCK__PAUSING;

    return waits && is_alike(call, spec) && call->error == 0 && !call->acquire.enqueued &&
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

/* The call has the hold now, under the number that the server knows. */
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
    call->core->stats.passes++;
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
    assert(hold->grant->passes < MOST_PASSES);
    hold->grant->passes++;
    rlock__histogram_add(&call->core->stats.hold, now - hold->grant->granted_at);
    exchange(hold, call->hold);
    rlock__hold_over(hold);
    take(call, now);
    assert(hold->state == RLOCK__HOLD_NONE && call->hold->state == RLOCK__HOLD_HELD);
    return call;
}

/* ---- Lingering ---- */

/* Whether the server tells this client when a call of another client waits for the lock. Some kinds
 * have no queue on the server. Their waiters poll, or hear the release. */
static bool will_be_told(struct rlock__spec *spec, int64_t now)
{
    bool enters = spec->core->opts.queues && (spec->ops->caps & RLOCK__CAP_ENTERS) != 0;

    return !enters || rlock__channel_client_keep(spec, now);
}

bool rlock__pass_may_linger(const struct rlock__hold *hold, int64_t now)
{
    const struct rlock__grant *grant = hold->grant;
    struct rlock__spec *spec = hold->spec;
    bool told = may_pass(spec) && will_be_told(spec, now); /* if not yet, from the next time on */

    return told && may_go(hold, now) && !grant->is_awaited && !grant->is_short &&
           grant->batch_entry == NULL && hold->line == NULL && hold->owed.n == 0 &&
           !rlock__queue_is_contended(spec->core, spec, now) && !is_awaited_by_group(spec);
}

void rlock__pass_linger(struct rlock__hold *hold, int64_t now)
{
    struct rlock__grant *grant = hold->grant;
    int64_t most = hold->spec->tuning->linger_us;

    assert(hold->count == 1 && grant->releasing && grant->release == NULL);
    rlock__histogram_add(&hold->spec->core->stats.hold, now - grant->granted_at);
    grant->granted_at = 0;
    grant->due = rlock__min(now + most, grant->leased_at + MOST_PASSING);
    rlock__grant_linger(grant, true);
}

/* Whether the call may take over the hold that lingers. */
static bool may_retake(const struct rlock__call *call, const struct rlock__hold *hold, int64_t now)
{
    return is_alike(call, hold->spec) && call->acquire.adopts == NULL &&
           call->acquire.batch == NULL && call->acquire.min_uptime_us == 0 &&
           now < hold->grant->valid_until && !is_in_doubt(hold->grant, now);
}

bool rlock__pass_retake(struct rlock__call *call, int64_t now)
{
    struct rlock__hold *hold = lingering(call->core, call->spec);
    struct rlock__grant *grant;

    if (hold == NULL) {
        return false;
    }
    if (!may_retake(call, hold, now) || !rlock__hold_view(call->hold, call->spec)) {
        rlock__release_due(hold, now);
        return false;
    }
    grant = hold->grant;
    assert(hold->is_hidden && hold->turn == NULL && grant->release == NULL);
    rlock__grant_linger(grant, false);
    grant->releasing = false;
    rlock__grant_due(grant, grant->leased_at, grant->lease_us);
    exchange(hold, call->hold);
    rlock__hold_over(hold);
    take(call, now);
    rlock__hold_leave(hold, now); /* which frees the row */
    return true;
}
