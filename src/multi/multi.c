/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The multi-lock: all of its members or none. Where one script may take them all, it does: nobody
 * holds a part, or waits while holding. Where it may not, or has found one or another of them busy
 * for too long, they are taken in canonical order, holding and waiting, and all are given back at
 * the deadline: whoever does so waits only for members behind all that it holds, so that nobody
 * ever waits in a circle (resource ordering; E. W. Dijkstra, EWD 310). A fixed lease is renewed
 * until the last member is there.
 */
#include "multi/group.h"

#define PAUSE_US (10 * RLOCK__MS)

/* All at once, once nothing of an earlier effort runs; for half of the wait. */
static void take_together(struct rlock__party *party, int64_t now)
{
    struct rlock__team *team = party->team;
    int64_t remains = rlock__party_remains(party, now);
    bool patient = remains == 0 || remains == RLOCK__NEVER;

    *team = (struct rlock__team){.n = party->composite->n,
                                 .until = patient ? RLOCK__NEVER : now + remains / 2};
    for (size_t i = 0; i < team->n; i++) {
        rlock__slot_take(&party->slots[i], remains, false, now);
        party->slots[i].call.team = team;
        team->calls[i] = &party->slots[i].call;
    }
}

static void take_next(struct rlock__party *party, int64_t now)
{
    for (size_t i = 0; i < party->composite->n; i++) {
        if (party->slots[i].running) { /* asked, or still being left */
            return;
        }
    }
    for (size_t i = 0; i < party->composite->n; i++) {
        if (!party->slots[i].tried && !party->apart) {
            take_together(party, now);
            return;
        }
        if (!party->slots[i].tried) {
            rlock__slot_take(&party->slots[i], rlock__party_remains(party, now), true, now);
            return;
        }
    }
    rlock__party_taken(party, now);
}

static void take(struct rlock__party *party, int64_t now)
{
    for (size_t i = 0; i < party->composite->n; i++) { /* a round, or an effort */
        party->slots[i].tried = false;
    }
    take_next(party, now);
}

/* A level more of each, all at once: none of them waits for anybody. But a member may still be
 * left, by an unlock that ended in doubt. */
static void nest(struct rlock__party *party, int64_t now)
{
    for (size_t i = 0; i < party->composite->n; i++) {
        struct rlock__slot *slot = &party->slots[i];

        if (!slot->running && !slot->tried) {
            rlock__slot_take(slot, 0, false, now);
        }
    }
}

static void moved(struct rlock__party *party, struct rlock__slot *slot, int64_t now)
{
    if (slot->tried && slot->code == RLOCK_EBUSY && party->effort.wait_us != 0) {
        party->apart = true;
        rlock__party_blame(party, slot);
        rlock__party_back_out(party, RLOCK_ETIMEDOUT, now);
    } else if (slot->tried && slot->code != 0) {
        rlock__party_blame(party, slot);
        rlock__party_back_out(party, slot->code, now);
    } else if (party->count == 0) {
        take_next(party, now);
    } else {
        nest(party, now);
        if (rlock__party_running(party) == 0) {
            rlock__party_taken(party, now);
        }
    }
}

static int verdict(struct rlock__party *party, bool late)
{
    (void)late;
    return party->effort.wait_us == 0 ? RLOCK_EBUSY : RLOCK_ETIMEDOUT;
}

/* A member was lost while the rest was waited for, or all at once did not get on: from the start,
 * with what remains of the wait. */
static int64_t again_at(struct rlock__party *party, int64_t now)
{
    int64_t pause = RLOCK__MS + rlock__party_random(party, PAUSE_US);

    return party->code == RLOCK_ETIMEDOUT && rlock__party_remains(party, now) > pause
               ? now + pause
               : RLOCK__NEVER;
}

static int64_t valid_until(const struct rlock__party *party)
{
    int64_t until = RLOCK__NEVER;

    for (size_t i = 0; i < party->composite->n; i++) {
        const struct rlock__claim *claim = party->slots[i].claim;

        until = rlock__min(until, claim != NULL ? atomic_load(&claim->valid_until) : 0);
    }
    return until;
}

/* All of them; the first error is the whole's. */
static bool left(const struct rlock__party *party, int *ret_code)
{
    for (size_t i = party->composite->n; i-- > 0;) {
        *ret_code = party->slots[i].code != 0 ? party->slots[i].code : *ret_code;
    }
    return rlock__party_running(party) == 0;
}

static bool in_doubt(const struct rlock__party *party, size_t n)
{
    (void)party;
    return n > 0;
}

const struct rlock__composite_ops rlock__multi_ops = {
    .kind = "multi",
    .caps = RLOCK__CAP_MEMBERS,
    .take = take,
    .moved = moved,
    .verdict = verdict,
    .again_at = again_at,
    .nest = nest,
    .valid_until = valid_until,
    .left = left,
    .in_doubt = in_doubt,
};
