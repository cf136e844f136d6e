/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The levels of a hold: the owner's own levels, and the levels of groups. This file counts them,
 * those that are renewed, and those that unlocks have given up. The levels of groups end in any
 * order, so a release says what it gives up. Of the owner's own levels the last one ends first.
 */
#include <assert.h>
#include <stdlib.h>

#include "lock/common.h"
#include "lock/hold/hold.h"

void rlock__levels_add(struct rlock__levels *levels, const struct rlock__levels *more)
{
    assert(more->members <= more->n);
    levels->n += more->n;
    levels->members += more->members;
    levels->renewals += more->renewals;
    levels->provisional += more->provisional;
    assert(levels->members <= levels->n);
}

/* All levels that unlocks give up: those of the release that has the turn, and those that unlocks
 * without a turn left. */
static struct rlock__levels given_up(const struct rlock__hold *hold)
{
    struct rlock__levels all = hold->leaves;

    rlock__levels_add(&all, &hold->owed);
    return all;
}

struct rlock__levels rlock__levels_of(const struct rlock__call *call)
{
    assert(call->kind == RLOCK__RELEASE);
    assert(call->member || (!call->renewed && !call->provisional));
    return (struct rlock__levels){.n = 1,
                                  .members = call->member,
                                  .renewals = call->renewed,
                                  .provisional = call->provisional};
}

uint32_t rlock__hold_units(const struct rlock__hold *hold, uint32_t levels)
{
    const struct rlock__units *units = rlock__units_of(hold);

    levels = levels < hold->count ? levels : hold->count; /* a hold that was lost may have fewer */
    return units == NULL || levels == 0 ? levels : units->totals[levels - 1];
}

uint32_t rlock__call_units(const struct rlock__call *call)
{
    assert(call->kind == RLOCK__ACQUIRE && call->acquire.target > 0);
    return rlock__hold_units(call->hold, call->acquire.target - 1) +
           (uint32_t)rlock__max(call->acquire.units, 1);
}

void rlock__units_ask(struct rlock__call *call, struct rlock__args *args)
{
    struct rlock__units *units = call->hold->units;

    assert(units != NULL); /* rlock__hold_prepare() */
    args->units = rlock__call_units(call);
    args->held_units = rlock__hold_units(call->hold, call->acquire.target - 1);
    if (call->acquire.target == 1 || args->units > units->most) {
        units->most = args->units;
    }
}

bool rlock__units_reserve(const struct rlock__call *call)
{
    struct rlock__hold *hold = call->hold;
    const struct rlock__units none = {.room = 0};
    uint32_t room = 2 * call->acquire.target;
    struct rlock__units *units = hold->units;

    if (units != NULL && call->acquire.target <= units->room) {
        return true;
    }
    units = realloc(units, sizeof(*units) + room * sizeof(units->totals[0]));
    if (units == NULL) {
        return false;
    }
    if (hold->units == NULL) {
        *units = none;
    }
    units->room = room;
    hold->units = units;
    return true;
}

/* Whether the levels that unlocks leave need the renewal. */
static bool is_renewed_for_the_rest(const struct rlock__hold *hold)
{
    struct rlock__levels gone = given_up(hold);
    int64_t own = (int64_t)hold->count - hold->members - (gone.n - gone.members);
    bool ends = gone.n + hold->lined >= hold->count && gone.n + hold->lined > 0;

    assert(gone.n <= hold->count);
    return !ends && ((hold->renewed_from != 0 && hold->renewed_from <= own) ||
                     hold->renewals > gone.renewals || hold->provisional > gone.provisional);
}

bool rlock__hold_is_renewed(const struct rlock__hold *hold)
{
    assert(hold->state == RLOCK__HOLD_HELD);
    assert(hold->members <= hold->count);
    if ((hold->leaves.n | hold->owed.n | hold->lined) != 0) {
        return is_renewed_for_the_rest(hold);
    }
    return hold->renewals > 0 || hold->provisional > 0 ||
           (hold->renewed_from != 0 && hold->renewed_from <= hold->count - hold->members);
}

/* The new level lies above the levels that the owner keeps. A level that the owner has given up
 * does not count, and its renewal ends. */
static void add_own_level(struct rlock__hold *hold, const struct rlock__call *call)
{
    uint32_t owed = hold->owed.n - hold->owed.members;
    uint32_t own = call->acquire.target - hold->members; /* with the new one */
    uint32_t level = own > owed ? own - owed : 0;        /* 0: the owner has given it up already */

    assert(!call->member);
    assert(hold->owed.members <= hold->owed.n);
    if (hold->renewed_from >= level) {
        hold->renewed_from = 0;
    }
    if (call->acquire.lease_us == 0 && hold->renewed_from == 0) {
        hold->renewed_from = level;
    }
    assert(hold->renewed_from <= level);
}

void rlock__hold_add_level(struct rlock__hold *hold, const struct rlock__call *call, int64_t t0,
                           int64_t lease_us)
{
    bool renewed = rlock__hold_is_renewed(hold);

    assert(call->acquire.target == hold->count + 1);
    assert(hold->state == RLOCK__HOLD_HELD);
    assert(call->member || (!call->renewed && !call->provisional));
    if (call->provisional) {
        hold->provisional_us =
            hold->provisional > 0 ? rlock__max(hold->provisional_us, lease_us) : lease_us;
        hold->provisional++;
    }
    hold->members += call->member;
    hold->renewals += call->renewed;
    if (!call->member) {
        add_own_level(hold, call);
    }
    if (rlock__units_of(hold) != NULL) {
        hold->units->totals[call->acquire.target - 1] = rlock__call_units(call);
    }
    rlock__hold_set_count(hold, call->acquire.target);
    assert(hold->members <= hold->count);
    assert(!call->provisional || rlock__hold_is_renewed(hold) || hold->lined > 0);
    if (!renewed && rlock__hold_is_renewed(hold)) {
        rlock__grant_due(hold->grant, t0, lease_us);
    }
}

static uint32_t less(uint32_t n, uint32_t by)
{
    return n > by ? n - by : 0;
}

static void drop(struct rlock__hold *hold, struct rlock__levels *levels)
{
    uint32_t count = less(hold->count, levels->n);

    assert(levels->members <= levels->n);
    assert(levels->n <= hold->count);
    hold->members = less(hold->members, levels->members);
    hold->members = hold->members < count ? hold->members : count;
    hold->renewals = less(hold->renewals, levels->renewals);
    hold->provisional = less(hold->provisional, levels->provisional);
    if (hold->renewed_from > count - hold->members) {
        hold->renewed_from = 0;
    }
    *levels = (struct rlock__levels){0};
    rlock__hold_set_count(hold, count);
    assert(hold->members <= hold->count);
    assert(hold->renewed_from <= hold->count - hold->members);
}

void rlock__hold_drop_levels(struct rlock__hold *hold)
{
    assert(hold->state != RLOCK__HOLD_NONE);
    drop(hold, &hold->leaves);
}

void rlock__hold_end_sent(struct rlock__hold *hold, unsigned n, int code)
{
    const char *server = hold->grant->link->server->address;
    char name[96];

    assert(n <= hold->sent);
    hold->sent = (uint8_t)(hold->sent - n);
    if (n == 0 || code == 0) {
        return;
    }
    hold->spec->core->stats.unsure += n;
    rlock__note(hold->spec->core, RLOCK_LOG_WARNING, rlock__about("release", server, code),
                "lock %s: an unlock that did not wait for the answer failed: %s (server %s)",
                rlock__spec_text(hold->spec, name), rlock_strerror(code), server);
}

void rlock__hold_drop_owed(struct rlock__hold *hold)
{
    assert(hold->state == RLOCK__HOLD_LOST); /* a held hold still releases them */
    rlock__hold_end_sent(hold, rlock__hold_sent_owed(hold), RLOCK_ELOST);
    drop(hold, &hold->owed);
}

uint32_t rlock__hold_left(const struct rlock__hold *hold)
{
    uint32_t gone = hold->owed.n + (hold->turn == NULL ? hold->leaves.n : 0);

    return less(hold->count, gone);
}

void rlock__hold_show(struct rlock__hold *hold)
{
    uint32_t left = rlock__hold_left(hold);

    assert(left == 0 || hold->state != RLOCK__HOLD_NONE);
    atomic_store_explicit(&hold->view->count, left, memory_order_relaxed);
    if (left == 0) {
        atomic_store(&hold->view->valid_until, 0);
    }
}

void rlock__hold_set_count(struct rlock__hold *hold, uint32_t count)
{
    assert(count <= hold->count + 1); /* a call adds one level */
    hold->count = count;
    rlock__hold_show(hold);
}

void rlock__hold_plan(struct rlock__hold *hold)
{
    if (hold->state == RLOCK__HOLD_HELD) {
        rlock__grant_plan(hold->grant);
    }
}
