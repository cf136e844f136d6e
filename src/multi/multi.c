/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The multi-lock: all of its members or none. If one script may take all members, it does: no
 * client holds a part, or waits while it holds one. If no script may, or it found one or another
 * member busy for too long, the client takes the members one by one, in canonical order. It holds
 * those that it has while it waits, and gives all back at the deadline. Each client waits only for
 * members behind all that it holds, so that clients never wait in a circle (resource ordering;
 * E. W. Dijkstra, EWD 310). A fixed lease is renewed until the last member is held.
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

/* Takes all members at once, with half of the wait. No call of an earlier effort runs. */
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
    if (rlock__group_running(group) > 0) { /* a member is asked, or still released */
        return;
    }
    RLOCK__EACH_MEMBER(member, group) {
        if (!member->tried && !group->apart) {
            take_together(group, now);
            return;
        }
        if (!member->tried) {
            if (group->batch != NULL) {
                group->batch->is_scattered = false; /* the group has reacted to that */
            }
            rlock__member_take(member, remains(group, now), true, now);
            return;
        }
    }
    rlock__group_taken(group, now);
}

/* Takes a level more of each member, all at once: no member waits for a holder. But an unlock that
 * ended in doubt may still be releasing a member. */
static void nest(struct rlock__group *group, int64_t now)
{
    RLOCK__EACH_MEMBER(member, group) {
        if (!member->running && !member->tried) {
            rlock__member_take(member, 0, false, now);
        }
    }
}

/* Whether the server refused the script because the members' slot is being moved. */
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

/* A member was lost while the group waited for the others, or the batch gave up: starts again, with
 * what remains of the wait. */
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

/* The release is complete when all members' releases are. The first error is the whole's. */
static bool left(const struct rlock__group *group, int *ret_code)
{
    for (size_t i = group->spec->n; i-- > 0;) {
        *ret_code = group->members[i].code != 0 ? group->members[i].code : *ret_code;
    }
    return rlock__group_running(group) == 0;
}

const struct rlock__group_ops rlock__multi_ops = {
    .kind = "multi",
    .number = RLOCK_KIND_MULTI,
    .caps = RLOCK__CAP_MEMBERS,
    .take = take_next,
    .moved = moved,
    .verdict = verdict,
    .again_at = again_at,
    .nest = nest,
    .valid_until = valid_until,
    .left = left,
};
