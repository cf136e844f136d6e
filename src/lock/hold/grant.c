/* SPDX-License-Identifier: Apache-2.0 */
/* A grant: the link that renews it, its validity, and its timer. */
#include <assert.h>
#include <utlist.h>

#include "lock/common.h"
#include "lock/hold/hold.h"
#include "lock/hold/ticket.h"
#include "lock/server/route.h"

#define FULL_AFTER_US                                                                              \
    (100 * RLOCK__MS) /* a hold that a release granted makes its lease full then */

struct rlock__link *rlock__grant_route(struct rlock__grant *grant)
{
    struct rlock__link *link = rlock__route(grant->hold->spec);

    assert(grant->hold->grant == grant);
    if (link != grant->link) {
        assert(!grant->is_numbered || grant->link->n_granted > 0);
        if (grant->is_waiting) {
            rlock__grant_wait(grant, false);
            rlock__timer_set(&link->server->core->bulk, &grant->timer, grant->valid_until);
        }
        grant->failed_over |= grant->link->replaced;
        grant->link->n_granted -= grant->is_numbered;
        link->n_granted += grant->is_numbered;
        grant->link = link;
        grant->life = link->server->life;
    }
    return link;
}

void rlock__grant_hurry(struct rlock__grant *grant, int64_t now)
{
    assert(grant->hold->state == RLOCK__HOLD_HELD);
    rlock__grant_route(grant)->rests_until = now;
    rlock__server_touch(grant->link->server);
    grant->due = now;
}

void rlock__grant_verify(struct rlock__grant *grant, int64_t now)
{
    rlock__grant_hurry(grant, now);
    grant->verifies = true;
    rlock__grant_plan(grant);
    assert(grant->timer.at <= now || grant->batch_entry != NULL || grant->is_waiting ||
           grant->releasing);
}

void rlock__grant_seen(struct rlock__grant *grant)
{
    assert(grant->is_numbered);
    grant->verifies = grant->failed_over = false;
    if (!grant->is_guarded) { /* a restart ends a guarded grant, even if the server has it */
        grant->life = grant->link->server->life;
    }
    assert(grant->is_guarded || !rlock__grant_moved(grant));
}

bool rlock__grant_moved(const struct rlock__grant *grant)
{
    return grant->failed_over || grant->life != grant->link->server->life;
}

static struct rlock__timers *timers_of(const struct rlock__grant *grant)
{
    return grant->is_waiting ? &grant->link->due : &grant->link->server->core->bulk;
}

void rlock__grant_wait(struct rlock__grant *grant, bool waits)
{
    assert(!waits || grant->is_numbered); /* a lost hold stays lost */
    assert(!waits || !grant->releasing);
    assert(!waits || grant->batch_entry == NULL);
    if (grant->is_waiting != waits) {
        rlock__server_touch(grant->link->server);
        rlock__timer_unset(timers_of(grant), &grant->timer);
        grant->is_waiting = waits;
    }
}

void rlock__grant_unset(struct rlock__grant *grant)
{
    if (grant->is_waiting) {
        rlock__server_touch(grant->link->server);
    }
    rlock__timer_unset(timers_of(grant), &grant->timer);
    grant->is_waiting = false;
}

void rlock__grant_plan(struct rlock__grant *grant)
{
    const struct rlock__hold *hold = grant->hold;
    bool held = hold->state == RLOCK__HOLD_HELD;
    bool renewed =
        held && !grant->releasing &&
        (grant->verifies || rlock__hold_is_renewed(hold) || rlock__extensions_wait(grant));
    int64_t at = held ? grant->valid_until : RLOCK__NEVER;

    assert(hold->grant == grant);
    assert(grant->is_numbered == held);
    assert(!grant->releasing || hold->busy);
    if (!renewed) {
        rlock__grant_wait(grant, false);
    }
    if (grant->releasing) { /* a refused release is sent again when it is due */
        bool waits = grant->release == NULL && hold->turn == NULL;

        at = waits ? rlock__min(grant->due, grant->free_by) : grant->free_by;
    } else if (renewed && grant->batch_entry == NULL && !grant->is_waiting) {
        at = rlock__min(at, grant->due);
    }
    if (!grant->timer.set || grant->timer.at != at) {
        if (grant->is_waiting) {
            rlock__server_touch(grant->link->server);
        }
        rlock__timer_set(timers_of(grant), &grant->timer, at);
    }
    assert(!held || grant->timer.set);
    assert(!held || grant->timer.at <= grant->free_by);
    assert(!grant->is_waiting || grant->timer.at == grant->valid_until);
}

void rlock__grant_set_valid(struct rlock__grant *grant, int64_t t0, int64_t lease_us, int64_t now)
{
    struct rlock__core *core = grant->hold->spec->core;
    int64_t until = rlock__valid_until(core, t0, lease_us);

    assert(grant->hold->state == RLOCK__HOLD_HELD);
    assert(grant->is_numbered && lease_us > 0);
    if (!RLOCK__ENSURE(core, t0 <= now && until < now + lease_us)) {
        return; /* the validity does not change */
    }
    grant->valid_until = rlock__max(grant->valid_until, until);
    grant->leased_at = rlock__max(grant->leased_at, t0);
    rlock__grant_may_last(grant, rlock__free_by(now, lease_us));
    atomic_store(&grant->hold->view->valid_until,
                 rlock__hold_left(grant->hold) != 0 ? grant->valid_until : 0);
    assert(grant->valid_until <= grant->free_by); /* the server's lease outlasts the validity */
    assert(grant->leased_at <= now);
}

void rlock__grant_extended(struct rlock__grant *grant, int64_t t0, int64_t lease_us, int64_t now)
{
    assert(grant->extends); /* the command asked for a lease */
    assert(!grant->releasing);
    if (rlock__acks_needed(grant->link->server) == 0) {
        rlock__grant_set_valid(grant, t0, lease_us, now);
    } else {
        rlock__grant_may_last(grant, rlock__free_by(now, lease_us));
    }
}

/* The two sides of a read/write lock that one owner holds are rows of one hash: both last as long
 * as the longer lease. */
static void share_end(struct rlock__grant *grant)
{
    const struct rlock__hold *hold = grant->hold;
    const struct rlock__owner owner = {.id = hold->owner_id, .given = hold->given};
    struct rlock__hold *other =
        rlock__hold_find_side(hold->spec->core, hold->spec, owner, hold->spec->ops->other_side);

    if (other != NULL && other->state != RLOCK__HOLD_NONE) {
        grant->free_by = rlock__max(grant->free_by, other->grant->free_by);
        other->grant->free_by = grant->free_by;
    }
}

void rlock__grant_may_last(struct rlock__grant *grant, int64_t free_by)
{
    struct rlock__core *core = grant->hold->spec->core;

    assert(grant->hold->state != RLOCK__HOLD_NONE);
    if (free_by > grant->free_by) {
        grant->free_by = free_by;
        core->leased_until = rlock__max(core->leased_until, free_by);
        if (grant->hold->spec->ops->other_side != 0) {
            share_end(grant);
        }
    }
    assert(grant->free_by <= core->leased_until);
}

void rlock__grant_mind_renewal(struct rlock__grant *grant, int64_t now)
{
    if (grant->batch_entry != NULL) {
        assert(*grant->batch_entry == grant);
        int64_t longest =
            rlock__max(grant->hold->spec->core->opts.renewed_lease_us, grant->lease_us);

        rlock__grant_may_last(grant, rlock__free_by(now, longest));
    }
}

void rlock__grant_mind_levels(struct rlock__grant *grant, int64_t now)
{
    const struct rlock__ticket *level;

    DL_FOREACH2(grant != NULL ? grant->undone : NULL, level, undone_next)
    {
        assert(level->grant == grant && level->number == grant->number);
        assert(level->lease_us > 0);
        rlock__grant_may_last(grant, rlock__free_by(now, level->lease_us));
    }
}

int64_t rlock__grant_cut(const struct rlock__grant *grant, int64_t lease_us, int64_t at)
{
    int64_t end = rlock__max(grant->held_until, grant->valid_until);

    assert(grant->hold->state != RLOCK__HOLD_NONE);
    assert(grant->held_until != 0); /* a time, or RLOCK__NEVER */
    return rlock__min(lease_us, rlock__max(end - at, RLOCK__MS));
}

int64_t rlock__acquire_lease(const struct rlock__call *call, int64_t at)
{
    int64_t lease =
        call->acquire.lease_us != 0 ? call->acquire.lease_us : call->core->opts.renewed_lease_us;
    int64_t most = call->spec->tuning->max_hold_us;

    assert(call->kind == RLOCK__ACQUIRE);
    if (call->acquire.target > 1) {
        return rlock__grant_cut(call->hold->grant, lease, at);
    }
    return most != 0 ? rlock__min(lease, most) : lease;
}

/* Rounds to a grid of a twentieth of the period, so that neighbours share a batch from then on. */
void rlock__grant_due(struct rlock__grant *grant, int64_t t0, int64_t lease_us)
{
    int64_t grid = rlock__max(grant->hold->spec->core->opts.renewed_lease_us / 60, RLOCK__MS);
    int64_t due = t0 + lease_us / 3;

    assert(lease_us > 0);
    grant->due = rlock__max(due - due % grid, t0 + lease_us / 6);
    assert(grant->due >= t0 && grant->due < t0 + lease_us);
}

void rlock__grant_pushed(struct rlock__grant *grant, int64_t now)
{
    const struct rlock__spec *spec = grant->hold->spec;
    int64_t most = spec->tuning->max_hold_us;

    assert(grant->hold->state == RLOCK__HOLD_HELD && grant->valid_until > now);
    grant->lease_us = spec->core->opts.renewed_lease_us;
    grant->held_until = most != 0 ? rlock__later(now, most) : RLOCK__NEVER;
    grant->leased_at = now;
    grant->is_short = true;
    grant->due = now + FULL_AFTER_US;
    rlock__grant_plan(grant);
}

void rlock__grant_doubt(struct rlock__grant *grant, struct rlock__call *call)
{
    assert(call == NULL || call->kind == RLOCK__RELEASE);
    assert(call == NULL || call->hold == grant->hold);
    if (call != NULL && call->member) {
        (void)rlock__doubt_close(grant->doubt);
        grant->doubt = rlock__doubt_open(&call->doubt, grant->free_by);
    }
}
