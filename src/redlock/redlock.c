/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The RedLock: one lock on each of N servers that know nothing of each other; whoever has most of
 * them has it. All are asked at once, and the answer is certain when enough have answered; who is
 * late joins. After Antirez, "Distributed locks with Redis", with its delayed restarts, and with
 * validities that are counted from before the first request.
 */
#include <stdio.h>
#include <stdlib.h>

#include "multi/composite.h"

#define PAUSE_US (5 * RLOCK__MS) /* before another round: up to this, doubling up to the next */
#define PAUSE_MAX_US (160 * RLOCK__MS)
#define ROUND_US (10 * RLOCK__MS) /* none is begun with less of the wait left */

static size_t held(const struct rlock__party *party)
{
    size_t n = 0;

    for (size_t i = 0; i < party->composite->n; i++) {
        const struct rlock__slot *slot = &party->slots[i];

        n += slot->state == RLOCK__SLOT_HELD && atomic_load(&slot->claim->valid_until) != 0;
    }
    return n;
}

static size_t with_code(const struct rlock__party *party, int code)
{
    size_t n = 0;

    for (size_t i = 0; i < party->composite->n; i++) {
        const struct rlock__slot *slot = &party->slots[i];

        n += slot->tried && slot->state == RLOCK__SLOT_OUT && slot->code == code;
    }
    return n;
}

/* "no quorum: 2 of 5, 3 needed", and why of the first that did not count. */
static void say_no_quorum(struct rlock__party *party)
{
    const struct rlock__composite *composite = party->composite;
    char name[96];
    int n = snprintf(party->detail, sizeof(party->detail),
                     "lock %s: no quorum: %zu of %zu servers can grant it, %zu needed",
                     rlock__text(composite->name, name, sizeof(name)),
                     held(party) + with_code(party, RLOCK_EBUSY), composite->n, composite->quorum);

    for (size_t i = 0; i < composite->n; i++) {
        const struct rlock__slot *slot = &party->slots[i];

        if (slot->tried && slot->code != 0 && slot->code != RLOCK_EBUSY &&
            slot->code != RLOCK_ECANCELED && n > 0 && (size_t)n < sizeof(party->detail)) {
            (void)snprintf(party->detail + n, sizeof(party->detail) - (size_t)n, "; %s",
                           slot->call.detail);
            return;
        }
    }
}

/* No quorum, for certain: what that says to the caller. */
static int verdict(struct rlock__party *party, bool late)
{
    const struct rlock__composite *composite = party->composite;
    size_t working =
        held(party) + with_code(party, RLOCK_EBUSY) + (late ? 0 : rlock__party_running(party));
    bool hurried = party->contended && party->hurried; /* the last round had no time to tell */

    for (size_t i = 0; i < composite->n; i++) {
        const struct rlock__slot *slot = &party->slots[i];

        if (!slot->tried) {
            continue;
        }
        if (slot->code == RLOCK_ECANCELED || slot->code == RLOCK_ECLOSED ||
            slot->code == RLOCK_EINVAL || slot->code == RLOCK_EDEADLOCK) {
            rlock__party_blame(party, slot);
            return slot->code;
        }
        if (slot->code == RLOCK_EBUSY) {
            rlock__party_blame(party, slot);
        }
    }
    if (working >= composite->quorum || hurried) {
        party->contended = true;
        return party->effort.wait_us == 0 ? RLOCK_EBUSY : RLOCK_ETIMEDOUT;
    }
    say_no_quorum(party);
    return RLOCK_ENOQUORUM;
}

static void go_on(struct rlock__party *party, int64_t now)
{
    if (held(party) >= party->composite->quorum) {
        rlock__party_taken(party, now);
    } else if (held(party) + rlock__party_running(party) < party->composite->quorum) {
        rlock__party_back_out(party, verdict(party, false), now);
    }
}

static void take(struct rlock__party *party, int64_t now)
{
    party->rounds++;
    for (size_t i = 0; i < party->composite->n; i++) {
        struct rlock__slot *slot = &party->slots[i];

        slot->tried = false;
        if (!slot->running) { /* else once an earlier effort has left it */
            rlock__slot_take(slot, 0, false, now);
        }
    }
    go_on(party, now);
}

static void moved(struct rlock__party *party, struct rlock__slot *slot, int64_t now)
{
    if (!slot->tried && !slot->running) {
        rlock__slot_take(slot, 0, false, now);
    }
    go_on(party, now);
}

static int64_t again_at(struct rlock__party *party, int64_t now)
{
    int64_t pause = rlock__min(PAUSE_US << (party->rounds < 8 ? party->rounds : 8), PAUSE_MAX_US);
    int64_t last = party->deadline - ROUND_US;

    if (party->effort.wait_us == 0 || now + RLOCK__MS >= last ||
        (party->code != RLOCK_ETIMEDOUT && party->code != RLOCK_ENOQUORUM)) {
        return RLOCK__NEVER;
    }
    return now + RLOCK__MS + rlock__party_random(party, rlock__min(pause, last - now - RLOCK__MS));
}

/* Levels are counted here alone: the servers need not know. */
static void nest(struct rlock__party *party, int64_t now)
{
    rlock__party_taken(party, now);
}

static int descending(const void *left, const void *right)
{
    int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;

    return (a < b) - (a > b);
}

/* The quorum-th largest of the members' validities. */
static int64_t valid_until(const struct rlock__party *party)
{
    size_t n = party->composite->n;
    int64_t untils[RLOCK__MEMBERS_MAX];

    for (size_t i = 0; i < n; i++) {
        const struct rlock__claim *claim = party->slots[i].claim;

        untils[i] = claim != NULL ? atomic_load(&claim->valid_until) : 0;
    }
    qsort(untils, n, sizeof(untils[0]), descending);
    return untils[party->composite->quorum - 1];
}

/* Enough have let go for nobody else to be kept out; the others follow. */
static bool left(const struct rlock__party *party, int *ret_code)
{
    size_t out = 0, pending = 0;

    for (size_t i = 0; i < party->composite->n; i++) {
        const struct rlock__slot *slot = &party->slots[i];

        pending += slot->running;
        out += !slot->running && slot->code != RLOCK_EINDOUBT;
    }
    *ret_code = out >= party->composite->quorum ? 0 : RLOCK_EINDOUBT;
    return out >= party->composite->quorum || pending == 0;
}

static bool in_doubt(const struct rlock__party *party, size_t n)
{
    return n >= party->composite->quorum;
}

const struct rlock__composite_ops rlock__redlock_ops = {
    .kind = "redlock",
    .take = take,
    .moved = moved,
    .verdict = verdict,
    .again_at = again_at,
    .nest = nest,
    .valid_until = valid_until,
    .left = left,
    .in_doubt = in_doubt,
    .counts_alone = true,
};
