/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Levels that unlocks give up without a turn. Their owner does not have them any more. But the
 * effort in progress builds on them. So the group releases them only when that effort has ended.
 */
#include "multi/internal.h"

static void drop(struct rlock__group *group)
{
    uint32_t n = group->owed;

    group->owed = 0;
    rlock__group_drop(group, n);
}

void rlock__group_tidy(struct rlock__group *group)
{
    if (group->owed > 0) {
        drop(group);
    }
    if (group->lost || group->count == 0) { /* maybe because a client was closed */
        rlock__group_shed(group);
    } else {
        rlock__group_shed_levels(group);
    }
    RLOCK__EACH_MEMBER(member, group) {
        rlock__member_settle_renewal(member);
    }
}

/* The member is renewed if a level that is left needs it. Its topmost levels are released next. */
static void settle_renewal(struct rlock__member *member)
{
    const struct rlock__group *group = member->group;

    if (member->renewed_from != 0 && group->renewed_from != 0) {
        member->renewed_from = group->spec->ops->counts_alone ? 1 : group->renewed_from;
        member->todo.renew = member->rests;
        member->rests = false;
    } else if (member->rests) {
        member->renewed_from = 0;
        member->rests = false;
    } else if (member->renewed_from != 0 && !group->spec->ops->counts_alone) {
        member->renewed_from = member->levels;
    }
}

void rlock__group_replace_owed(struct rlock__group *group)
{
    uint32_t below = rlock__group_left(group) - 1;

    if (group->renewed_from > below || group->renewed_from == 0) {
        group->renewed_from = group->effort.lease_us == 0 ? below + 1 : 0;
    }
    drop(group);
    RLOCK__EACH_MEMBER(member, group) {
        settle_renewal(member);
    }
}
