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

/* What remains of the wait. 0: it was one attempt; RLOCK__NEVER: for ever. */
static int64_t remains(const struct rlock__group *group, int64_t now)
{
    if (group->effort.wait_us == 0) {
        return 0;
    }
    return group->deadline == RLOCK__NEVER ? RLOCK__NEVER : rlock__max(group->deadline - now, 1);
}

/* All at once, once nothing of an earlier effort runs; for half of the wait. */
static void take_together(struct rlock__group *group, int64_t now)
{
    struct rlock__batch *batch = group->batch;
    int64_t wait = remains(group, now);
    bool patient = wait == 0 || wait == RLOCK__NEVER;

    *batch = (struct rlock__batch){.n = group->spec->n,
                                   .until = patient ? RLOCK__NEVER : now + wait / 2};
    for (size_t i = 0; i < batch->n; i++) {
        rlock__member_take(&group->members[i], wait, false, now);
        group->members[i].call.acquire.batch = batch;
        batch->calls[i] = &group->members[i].call;
    }
}

static void take_next(struct rlock__group *group, int64_t now)
{
    if (rlock__group_running(group) > 0) { /* asked, or still being left */
        return;
    }
    RLOCK__EACH_MEMBER(member, group) {
        if (!member->tried && !group->apart) {
            take_together(group, now);
            return;
        }
        if (!member->tried) {
            if (group->batch != NULL) {
                group->batch->is_scattered = false; /* that was heard */
            }
            rlock__member_take(member, remains(group, now), true, now);
            return;
        }
    }
    rlock__group_taken(group, now);
}

/* A level more of each, all at once: none of them waits for anybody. But a member may still be
 * left, by an unlock that ended in doubt. */
static void nest(struct rlock__group *group, int64_t now)
{
    RLOCK__EACH_MEMBER(member, group) {
        if (!member->running && !member->tried) {
            rlock__member_take(member, 0, false, now);
        }
    }
}

/* Whether the script was refused because their slot is being moved. */
static bool is_scattered(const struct rlock__group *group)
{
    return group->batch != NULL && group->batch->is_scattered;
}

static void moved(struct rlock__group *group, struct rlock__member *member, int64_t now)
{
    if (member->tried && member->code == RLOCK_EBUSY &&
        (group->effort.wait_us != 0 || is_scattered(group))) {
        group->apart = true;
        rlock__group_blame(group, member);
        rlock__group_back_out(group, group->effort.wait_us != 0 ? RLOCK_ETIMEDOUT : RLOCK_EBUSY,
                              now);
    } else if (member->tried && member->code != 0) {
        rlock__group_blame(group, member);
        rlock__group_back_out(group, member->call.cancelled ? RLOCK_ECANCELED : member->code, now);
    } else if (group->count == 0) {
        take_next(group, now);
    } else {
        nest(group, now);
        if (rlock__group_running(group) == 0) {
            rlock__group_taken(group, now);
        }
    }
}

static int verdict(struct rlock__group *group, bool late)
{
    (void)late;
    return group->effort.wait_us == 0 ? RLOCK_EBUSY : RLOCK_ETIMEDOUT;
}

/* A member was lost while the rest was waited for, or all at once did not get on: from the start,
 * with what remains of the wait. */
static int64_t again_at(struct rlock__group *group, int64_t now)
{
    int64_t pause = RLOCK__MS + rlock__group_random(group, PAUSE_US);
    bool passes = group->code == RLOCK_ETIMEDOUT || is_scattered(group) ||
                  (group->code == RLOCK_ENOTREPLICATED && group->effort.wait_us != 0);

    int64_t rest = is_scattered(group) ? group->deadline - now : remains(group, now);

    return passes && rest > pause ? now + pause : RLOCK__NEVER;
}

static int64_t valid_until(const struct rlock__group_spec *spec, const int64_t *untils)
{
    int64_t until = RLOCK__NEVER;

    for (size_t i = 0; i < spec->n; i++) {
        until = rlock__min(until, untils[i]);
    }
    return until;
}

/* All of them; the first error is the whole's. */
static bool left(const struct rlock__group *group, int *ret_code)
{
    for (size_t i = group->spec->n; i-- > 0;) {
        *ret_code = group->members[i].code != 0 ? group->members[i].code : *ret_code;
    }
    return rlock__group_running(group) == 0;
}

const struct rlock__group_ops rlock__multi_ops = {
    .kind = "multi",
    .caps = RLOCK__CAP_MEMBERS,
    .take = take_next,
    .moved = moved,
    .verdict = verdict,
    .again_at = again_at,
    .nest = nest,
    .valid_until = valid_until,
    .left = left,
};
