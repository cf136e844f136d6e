/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A hold: what one owner has of one lock. rlock__hold_state() moves it from one state to another.
 *
 * state  what is true                                           entered by           left by
 * NONE   the row is there for calls of this owner alone:        hold_get, hold_over  hold_granted,
 *        nothing is granted. The last call frees it                                  pass
 * HELD   the server granted grant.number. The grant has a       hold_granted, pass   hold_lose,
 *        timer for its next renewal, for its last release, or                        hold_over
 *        for the end of its validity
 * LOST   it ended before its owner unlocked it, and stays       hold_lose            hold_over
 *        lost: it is neither valid nor renewed. It waits for
 *        one unlock for each level
 */
#include <assert.h>
#include <stdlib.h>
#include <utlist.h>

#include "lock/common.h"
#include "lock/hold/hold.h"
#include "lock/hold/queue.h"
#include "lock/hold/recent.h"
#include "lock/hold/recovery.h"
#include "lock/server/route.h"

void rlock__hold_state(struct rlock__hold *hold, enum rlock__hold_state state)
{
    static const bool follows[3][3] = {
        [RLOCK__HOLD_NONE] = {[RLOCK__HOLD_HELD] = true},
        [RLOCK__HOLD_HELD] = {[RLOCK__HOLD_LOST] = true, [RLOCK__HOLD_NONE] = true},
        [RLOCK__HOLD_LOST] = {[RLOCK__HOLD_NONE] = true},
    };

    bool may = follows[hold->state][state];

    assert(may);
    (void)may;
    assert(state != RLOCK__HOLD_HELD || hold->turn != NULL); /* only a call with the turn */
    assert(state == RLOCK__HOLD_LOST || hold->busy);         /* gets a hold, or ends it */
    hold->state = state;
}

/* If the server may have more units of this hold, the renewal in flight may leave the new ones
 * out. */
static void units_granted(struct rlock__grant *grant, const struct rlock__call *call)
{
    const struct rlock__hold *hold = grant->hold;

    grant->uneven |= call->acquire.undone_units > rlock__hold_units(hold, hold->count);
    if (grant->uneven) {
        rlock__grant_changes(grant);
    }
}

void rlock__hold_granted(struct rlock__hold *hold, struct rlock__call *call, int64_t t0,
                         int64_t lease_us, int64_t now)
{
    struct rlock__grant *grant = hold->grant;
    int64_t most = call->spec->tuning->max_hold_us;

    assert(call->hold == hold && grant != NULL && t0 <= now);
    assert(hold->turn == call);
    assert(lease_us > 0);
    assert(hold->leaves.n == 0); /* no release has the turn */
    assert(!grant->releasing && grant->release == NULL);
    if (hold->state == RLOCK__HOLD_NONE) {
        assert(call->acquire.target == 1);
        assert(grant->ticket == NULL && grant->undone == NULL); /* the hold before left nothing */
        rlock__hold_state(hold, RLOCK__HOLD_HELD);
        grant->link = call->link;
        grant->life = call->link->server->life;
        rlock__grant_number(grant, call->number);
        grant->token = call->acquire.token;
        grant->granted_at = now;
        grant->held_until = most != 0 ? rlock__later(t0, most) : RLOCK__NEVER;
    }
    assert(grant->number == call->number); /* each level of a hold has the hold's number */
    rlock__ticket_hand_over(call, grant);
    grant->lease_us = rlock__max(grant->lease_us, lease_us);
    grant->is_guarded |= call->acquire.min_uptime_us != 0;
    rlock__hold_add_level(hold, call, t0, lease_us);
    if (rlock__has_units(hold->spec)) {
        units_granted(grant, call);
    }
    rlock__grant_set_valid(grant, t0, lease_us, now);
    rlock__grant_plan(grant);
    assert(hold->count == call->acquire.target);
    assert(now < grant->valid_until); /* the caller gives back a grant that is over already */
}

/* The server's grant ends. Nothing happens if it has ended before, or has lingered. */
static inline void note_duration(const struct rlock__grant *grant, int64_t now)
{
    if (grant->is_numbered && grant->granted_at != 0) {
        rlock__histogram_add(&grant->hold->spec->core->stats.hold, now - grant->granted_at);
    }
}

void rlock__hold_over(struct rlock__hold *hold)
{
    assert(hold->view != NULL);
    rlock__hold_state(hold, RLOCK__HOLD_NONE);
    hold->leaves = hold->owed = (struct rlock__levels){0};
    rlock__hold_set_count(hold, 0);
    rlock__units_drop(hold);
    hold->members = hold->renewed_from = hold->renewals = hold->provisional = 0;
    hold->detach = RLOCK__ATTACHED;
    atomic_store(&hold->view->valid_until, 0);
    if (hold->grant != NULL) {
        if (hold->grant->extensions != NULL) {
            rlock__extensions_over(hold->grant, 0);
        }
        rlock__grant_clear(hold->grant);
    }
    assert(atomic_load(&hold->view->count) == 0);
    assert(hold->grant == NULL || hold->grant->hold == hold); /* the row keeps the cleared grant */
}

/* Notes that others waited for the lock, for holds that would linger. */
static void note_others(const struct rlock__hold *hold, const struct rlock__answer *answer,
                        int64_t now)
{
    bool found_others = answer != NULL &&
                        (answer->receivers > 0 || answer->is_others_turn || answer->is_given_away);

    if (hold->grant->is_awaited || found_others) {
        rlock__queue_contended(hold->spec->core, hold->spec, now);
    }
}

void rlock__hold_ended(struct rlock__hold *hold, const struct rlock__answer *answer, int64_t now)
{
    const struct rlock__grant *grant = hold->grant;
    bool replaced = grant->ticket != NULL && grant->ticket->in_flight.replaced;

    assert(hold->state != RLOCK__HOLD_NONE);
    assert(grant->release == NULL); /* the release was answered, or abandoned */
    note_duration(grant, now);
    if (rlock__ticket_may_run(grant->ticket)) { /* a late copy would take the free lock */
        rlock__recover_ended(hold, now);
    }
    if (answer != NULL) {
        rlock__recent_add(grant->link, hold->spec, grant->number, replaced, now);
    }
    if (hold->spec->tuning->linger_us != 0) {
        note_others(hold, answer, now);
    }
    rlock__hold_over(hold);
    if (answer == NULL || !answer->shared) {
        rlock__queue_released(hold->spec->core, hold->spec, answer, now);
    }
}

/* Reports the loss to the owner, unless the owner has given up all levels. */
static void report(struct rlock__hold *hold, enum rlock_reason reason)
{
    struct rlock__core *core = hold->spec->core;
    struct rlock__loss *loss = hold->grant->loss;
    const char *server = hold->grant->link->server->address;
    char name[96];

    assert(hold->state == RLOCK__HOLD_LOST);
    if (rlock__hold_left(hold) == 0) {
        return;
    }
    rlock__note(core, RLOCK_LOG_WARNING, rlock__about("lost", server, RLOCK_ELOST),
                "lock %s: lost: %s (server %s)", rlock__spec_text(hold->spec, name),
                rlock_reason_text((int)reason), server);
    assert(hold->members <= hold->count);
    if (loss != NULL) {
        *loss = (struct rlock__loss){.spec = rlock__spec_ref(hold->spec),
                                     .owner_id = hold->owner_id,
                                     .given = hold->given,
                                     .own = hold->count - hold->members,
                                     .number = hold->grant->number,
                                     .server = strdup(server),
                                     .reason = reason};
        core->stats.losses[reason] += loss->own > 0;
        DL_APPEND(core->lost, loss);
        hold->grant->loss = NULL;
    }
}

/* Whether the server may still have a hold that was lost for this reason. */
static bool may_be_there(enum rlock_reason reason)
{
    return reason == RLOCK_LOST_EXPIRED || reason == RLOCK_LOST_CLOSED ||
           reason == RLOCK_LOST_RESTARTED || reason == RLOCK_LOST_NOT_REPLICATED ||
           reason == RLOCK_LOST_OWNER_ENDED;
}

void rlock__hold_lose(struct rlock__hold *hold, enum rlock_reason reason, int64_t now)
{
    struct rlock__grant *grant = hold->grant;
    bool may_run;

    if (hold->state != RLOCK__HOLD_HELD) {
        return;
    }
    assert(grant != NULL);
    assert(grant->is_numbered && hold->view != NULL);
    note_duration(grant, now);
    may_run = rlock__ticket_may_run(grant->ticket);
    rlock__hold_state(hold, RLOCK__HOLD_LOST);
    rlock__grant_unnumber(grant);
    hold->reason = reason;
    rlock__extensions_over(grant, (int)reason);
    rlock__hold_drop_owed(hold);
    grant->valid_until = 0;
    rlock__grant_linger(grant, false);
    atomic_store(&hold->view->valid_until, 0);
    report(hold, reason);
    if (reason != RLOCK_LOST_THREAD_EXITED && (may_be_there(reason) || may_run)) {
        /* The server still has the hold, or may have it again when a late copy runs: release it.
         * But after a thread has ended, the lease goes on protecting what the thread left. */
        rlock__recover_lost(hold, now);
    }
    rlock__grant_plan(grant);
    assert(!grant->is_waiting);                   /* a lost hold is not renewed */
    assert(grant->timer.set == grant->releasing); /* only its last release goes on */
    assert(hold->owed.n == 0);
    if (hold->turn != NULL && hold->turn->kind == RLOCK__ACQUIRE) { /* it may wait for a level */
        rlock__ready(hold->turn, RLOCK__AGAIN);
    }
    rlock__queue_released(hold->spec->core, hold->spec, NULL, now);
}

void rlock__hold_gone(struct rlock__hold *hold, bool taken, int64_t now)
{
    const struct rlock__grant *grant = hold->grant;
    enum rlock_reason reason = taken ? RLOCK_LOST_TAKEN : RLOCK_LOST_DELETED;

    assert(grant != NULL);
    if (now >= grant->valid_until) { /* the validity ended before the answer came */
        reason = RLOCK_LOST_EXPIRED;
    } else if (grant->leased_at < grant->link->server->stepped_at) {
        /* the server's clock was set forward since then, so the lease ended early */
        reason = RLOCK_LOST_CLOCK_STEPPED;
    } else if (grant->failed_over) { /* the promoted replica never had the hold */
        reason = RLOCK_LOST_NOT_REPLICATED;
    }
    rlock__hold_lose(hold, reason, now);
}

static void sweep(struct rlock__hold *hold, int64_t now)
{
    struct rlock__grant *grant = hold->grant;
    bool closed = hold->spec->core->closed;

    assert(hold->state != RLOCK__HOLD_NONE || hold->busy); /* other rows without levels are freed */
    if (closed && grant != NULL && !grant->releasing) {
        rlock__hold_lose(hold, RLOCK_LOST_CLOSED, now);
    } else if (closed && grant != NULL && hold->detach == RLOCK__DETACHING && hold->turn == NULL) {
        hold->detach = RLOCK__REVOKING; /* nobody got the text */
        grant->due = now;
        rlock__grant_plan(grant);
    } else if (closed && grant != NULL && grant->lingers) {
        grant->due = now;
        rlock__grant_plan(grant);
    }
    if (closed && !hold->busy) {
        rlock__hold_free(hold);
    } else if (grant == NULL) {
        return;
    } else if (grant->is_guarded && grant->life != grant->link->server->life) {
        rlock__hold_lose(hold, RLOCK_LOST_RESTARTED, now);
    } else if (hold->state == RLOCK__HOLD_HELD &&
               (grant->link != rlock__route(hold->spec) || rlock__grant_moved(grant))) {
        rlock__grant_verify(hold->grant, now);
    }
}

size_t rlock__holds_sweep(struct rlock__core *core, size_t most, int64_t now)
{
    size_t n = 0;

    while (core->rows.sweep != NULL && n < most) {
        struct rlock__hold *hold = core->rows.sweep;

        assert(hold->spec->core == core);
        core->rows.sweep = hold->next;
        sweep(hold, now);
        n++;
    }
    return n;
}

void rlock__core_finalize(struct rlock__core *core, const struct rlock__spec *spec,
                          struct rlock__owner owner)
{
    struct rlock__hold *hold = rlock__hold_find(core, spec, owner);

    if (hold != NULL && hold->provisional > 0) {
        assert(hold->state != RLOCK__HOLD_NONE); /* a row without levels has no provisional ones */
        hold->provisional--;
        rlock__grant_plan(hold->grant);
    }
}

void rlock__core_end_renewal(struct rlock__core *core, const struct rlock__spec *spec,
                             struct rlock__owner owner)
{
    struct rlock__hold *hold = rlock__hold_find(core, spec, owner);

    if (hold != NULL && hold->renewals > 0) {
        assert(hold->state != RLOCK__HOLD_NONE); /* a row without levels has nothing to renew */
        hold->renewals--;
        rlock__grant_plan(hold->grant);
    }
}

void rlock__core_renew(struct rlock__core *core, const struct rlock__spec *spec,
                       struct rlock__owner owner)
{
    struct rlock__hold *hold = rlock__hold_find(core, spec, owner);

    if (hold != NULL && hold->state == RLOCK__HOLD_HELD) {
        assert(hold->grant->lease_us > 0);
        hold->renewals++;
        rlock__grant_due(hold->grant, hold->grant->leased_at, hold->grant->lease_us);
        rlock__grant_plan(hold->grant);
    }
}

int64_t rlock__core_valid_until(struct rlock__core *core, const struct rlock__spec *spec,
                                struct rlock__owner owner, uint32_t *ret_count)
{
    struct rlock__hold *hold = core->closed ? NULL : rlock__hold_find(core, spec, owner);

    *ret_count = hold != NULL ? rlock__hold_left(hold) : 0;
    return hold != NULL && hold->view != NULL ? atomic_load(&hold->view->valid_until) : 0;
}

bool rlock__core_standing(struct rlock__core *core, const struct rlock__spec *spec,
                          struct rlock__owner owner, struct rlock__standing *ret_standing)
{
    const struct rlock__hold *hold = core->closed ? NULL : rlock__hold_find(core, spec, owner);

    if (hold == NULL || hold->state == RLOCK__HOLD_NONE || rlock__hold_left(hold) == 0) {
        return false;
    }
    *ret_standing = (struct rlock__standing){.number = hold->grant->number,
                                             .token = hold->grant->token,
                                             .lease_us = hold->grant->lease_us,
                                             .valid_until = atomic_load(&hold->view->valid_until),
                                             .since = hold->grant->granted_at,
                                             .levels = rlock__hold_left(hold)};
    if (hold->state == RLOCK__HOLD_LOST) {
        ret_standing->reason = (int)hold->reason;
    } else {
        ret_standing->is_renewed = rlock__hold_is_renewed(hold);
    }
    return true;
}
