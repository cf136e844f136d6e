/* SPDX-License-Identifier: Apache-2.0 */
#include "drive/watch.h"

#include <assert.h>
#include <utlist.h>

#include "base/time.h"

/* ---- The states ---- */

#define BIT(state) (1U << RLOCK__WATCH_##state)
#define WITH_LEADER (BIT(AWAKE) | BIT(ASLEEP) | BIT(COLLECTING) | BIT(STALLED))

/* The states from which each state is entered. */
static const unsigned may_follow[] = {
    [RLOCK__WATCH_VACANT] = WITH_LEADER,
    [RLOCK__WATCH_AWAKE] = WITH_LEADER | BIT(VACANT),
    [RLOCK__WATCH_ASLEEP] = BIT(AWAKE) | BIT(ASLEEP) | BIT(STALLED),
    [RLOCK__WATCH_COLLECTING] = BIT(AWAKE),
    [RLOCK__WATCH_STALLED] = WITH_LEADER,
};

void rlock__watch_check(const struct rlock__watch *watch)
{
    bool sleeps = watch->until != 0;

    assert((watch->leader == NULL) == (watch->state == RLOCK__WATCH_VACANT));
    assert(watch->leader != NULL || watch->parked == NULL);
    assert(watch->leader == NULL || watch->leader->keeps);
    assert(watch->leader == NULL || !watch->leader->parked);
    switch (watch->state) {
    case RLOCK__WATCH_VACANT:
    case RLOCK__WATCH_AWAKE:
        assert(!sleeps);
        break;
    case RLOCK__WATCH_ASLEEP:
    case RLOCK__WATCH_COLLECTING:
        assert(sleeps);
        break;
    case RLOCK__WATCH_STALLED: /* it sleeps or not */
        break;
    }
    assert(watch->pending == NULL || watch->woken != NULL);
    (void)sleeps;
}

RLOCK__REQUIRES(core)
static void enter_state(struct rlock__watch *watch, enum rlock__watch_state state, int64_t until)
{
    assert((may_follow[state] & 1U << watch->state) != 0);
    (void)may_follow;
    watch->state = state;
    watch->until = until;
    rlock__watch_check(watch);
}

void rlock__watch_init(struct rlock__watch *watch)
{
    *watch = (struct rlock__watch){.tick_at = RLOCK__NEVER};
}

/* ---- The leader ---- */

bool rlock__watch_begin(struct rlock__watch *watch, struct rlock__waiter *waiter)
{
    if (watch->leader != NULL) {
        return false;
    }
    watch->leader = waiter;
    waiter->keeps = true;
    watch->moved = true;
    enter_state(watch, RLOCK__WATCH_AWAKE, 0);
    return true;
}

void rlock__watch_end(struct rlock__watch *watch, struct rlock__waiter *leader)
{
    struct rlock__waiter *next = watch->parked;

    assert(watch->leader == leader);
    leader->keeps = false;
    watch->leader = next;
    watch->moved = true;
    if (next != NULL) {
        next->keeps = true;
        rlock__watch_signal(watch, next, RLOCK__PARK_KEEP);
    }
    enter_state(watch, next != NULL ? RLOCK__WATCH_AWAKE : RLOCK__WATCH_VACANT, 0);
}

void rlock__watch_moved(struct rlock__watch *watch)
{
    watch->moved = true;
    if (watch->leader != NULL) {
        enter_state(watch, RLOCK__WATCH_AWAKE, 0);
    }
}

void rlock__watch_plan(struct rlock__watch *watch, int64_t until)
{
    watch->moved = true;
    watch->replans = false;
    enter_state(watch, until != 0 ? RLOCK__WATCH_ASLEEP : RLOCK__WATCH_AWAKE, until);
}

bool rlock__watch_collect(struct rlock__watch *watch, int64_t until)
{
    if (watch->woken == NULL) {
        return false;
    }
    rlock__watch_moved(watch);
    enter_state(watch, RLOCK__WATCH_COLLECTING, until);
    return true;
}

void rlock__watch_tick(struct rlock__watch *watch, bool undone, int64_t next)
{
    if (watch->leader != NULL && !watch->moved && undone) {
        enter_state(watch, RLOCK__WATCH_STALLED, watch->until);
    } else if (watch->state == RLOCK__WATCH_STALLED) {
        enter_state(watch, watch->until != 0 ? RLOCK__WATCH_ASLEEP : RLOCK__WATCH_AWAKE,
                    watch->until);
    }
    watch->moved = false;
    watch->pending = watch->woken;
    watch->tick_at = next;
}

bool rlock__watch_is_left(const struct rlock__watch *watch)
{
    return watch->state == RLOCK__WATCH_VACANT || watch->state == RLOCK__WATCH_STALLED;
}

bool rlock__watch_oversleeps(const struct rlock__watch *watch, int64_t next)
{
    bool is_collected = watch->state == RLOCK__WATCH_COLLECTING && watch->woken == NULL;

    return watch->until != 0 && (watch->replans || is_collected || next < watch->until ||
                                 atomic_load(&watch->leader->signal) == RLOCK__PARK_DONE);
}

bool rlock__watch_wants_ticks(const struct rlock__watch *watch)
{
    return watch->leader != NULL || watch->moved || watch->woken != NULL;
}

/* ---- Parked callers ---- */

void rlock__watch_park(struct rlock__watch *watch, struct rlock__waiter *waiter)
{
    assert(watch->leader != NULL && watch->leader != waiter);
    waiter->parked = true;
    waiter->bit = watch->next_bit++ % RLOCK__BITS;
    DL_APPEND(watch->parked, waiter);
}

void rlock__watch_signal(struct rlock__watch *watch, struct rlock__waiter *waiter,
                         enum rlock__park signal)
{
    if (waiter->parked) {
        DL_DELETE(watch->parked, waiter);
        waiter->parked = false;
        DL_APPEND(watch->woken, waiter);
        watch->pending = watch->pending == NULL ? waiter : watch->pending;
    }
    atomic_store_explicit(&waiter->signal, (int)signal, memory_order_release);
}

void rlock__watch_seen(struct rlock__watch *watch, struct rlock__waiter *waiter)
{
    if (watch->pending == waiter) {
        watch->pending = waiter->next;
    }
    DL_DELETE(watch->woken, waiter);
}
