/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Extends a group: all members that are held, at once. The group is extended when as many are as
 * make up the whole: all of a multi-lock, most of a RedLock. The others follow, or fail alone.
 */
#include <assert.h>
#include <stdio.h>

#include "multi/internal.h"

#define LATE_US (10 * RLOCK__MS) /* the group waits so long beyond its members' last time */

/* Counts the members that are extended. may: also counts those that may be soon, because a call of
 * this effort or of an earlier one is under way. */
static size_t extended(const struct rlock__group *group, bool may)
{
    size_t n = 0;

    RLOCK__EACH_MEMBER(member, group) {
        n += member->running ? may : member->tried && member->code == 0;
    }
    return n;
}

/* The group is renewed from its first level on, with the members that are extended by now. */
static void renew(struct rlock__group *group)
{
    group->renewed_from = 1;
    RLOCK__EACH_MEMBER(member, group) {
        if (member->tried && !member->running && member->code == 0) {
            rlock__member_renew(member);
        }
    }
}

static void succeed(struct rlock__group *group)
{
    const struct rlock__effort *effort = &group->effort;

    if (rlock__group_left(group) == 0) { /* another thread of the owner has unlocked it meanwhile */
        rlock__effort_end(group, RLOCK_ENOTOWNER);
        return;
    }
    if (group->lost) {
        rlock__effort_end(group, RLOCK_ELOST);
        return;
    }
    if (effort->lease_us == 0) {
        renew(group);
    }
    group->lease_granted_us = rlock__max(group->lease_granted_us, rlock__effort_lease(group));
    rlock__effort_end(group, 0);
}

/* Too few members were extended. A doubt about one of them says more than a refusal of another. */
RLOCK__REQUIRES(groups) static void fail(struct rlock__group *group, int64_t now)
{
    const struct rlock__member *worst = NULL;

    RLOCK__EACH_MEMBER(member, group) {
        bool failed = member->tried && !member->running && member->code != 0;

        if (failed && member->code == RLOCK_ELOST) {
            rlock__group_member_lost(group, (enum rlock_reason)member->call.extend.reason, now);
        }
        if (failed && (worst == NULL || member->code == RLOCK_EINDOUBT)) {
            worst = member;
        }
    }
    if (group->lost || rlock__group_left(group) == 0) { /* or unlocked by another thread */
        rlock__effort_end(group, group->lost ? RLOCK_ELOST : RLOCK_ENOTOWNER);
        return;
    }
    assert(worst != NULL);
    rlock__group_blame(group, worst);
    rlock__effort_end(group, worst->code == RLOCK_ELOST || worst->code == RLOCK_ENOTOWNER
                                 ? RLOCK_EINDOUBT /* a loss that its group has not heard of */
                                 : worst->code);
}

RLOCK__REQUIRES(groups) static void go_on(struct rlock__group *group, int64_t now)
{
    if (extended(group, false) >= group->spec->quorum) {
        succeed(group);
    } else if (extended(group, true) < group->spec->quorum) {
        fail(group, now);
    }
}

void rlock__extension_moved(struct rlock__group *group, struct rlock__member *member, int64_t now)
{
    if (!member->tried && member->state == RLOCK__MEMBER_HELD) { /* an earlier call was under way */
        rlock__member_extend(member);
    }
    go_on(group, now);
}

void rlock__extension_late(struct rlock__group *group)
{
    char name[96];

    (void)snprintf(group->texts.detail, sizeof(group->texts.detail),
                   "lock %s: not extended: no answer; it is valid as before",
                   rlock__text(group->spec->name, name, sizeof(name)));
    rlock__effort_end(group, RLOCK_EINDOUBT);
}

void rlock__group_extend(struct rlock__group *group, const struct rlock__effort *effort,
                         int64_t now)
{
    assert(group->phase == RLOCK__GROUP_IDLE && group->owed == 0);
    rlock__group_await(group);
    group->effort = *effort;
    group->code = 0;
    rlock__texts_clear(&group->texts);
    if (group->count == 0) {
        rlock__effort_end(group, RLOCK_ENOTOWNER);
        return;
    }
    rlock__group_member_lost(group, RLOCK_LOST_EXPIRED, now);
    if (group->lost) {
        rlock__effort_end(group, RLOCK_ELOST);
        return;
    }
    rlock__effort_phase(group, RLOCK__GROUP_EXTENDING);
    group->timer_at = now + effort->op_timeout_us + LATE_US;
    RLOCK__EACH_MEMBER(member, group) {
        member->tried = false;
        if (member->state == RLOCK__MEMBER_HELD) {
            rlock__member_extend(member);
        }
    }
    go_on(group, now);
}
