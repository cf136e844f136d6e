/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Levels that unlocks give up without a turn. Their owner does not have them any more. But the
 * effort in progress builds on them. So the group releases them only when that effort has ended.
 */
#include <stdio.h>

#include "multi/internal.h"
#include "multi/view.h"

/* The levels of a member that no release is giving up. */
static uint32_t staying(const struct rlock__member *member)
{
    return member->levels - (member->state == RLOCK__MEMBER_LEAVING);
}

/* The owner has given up all levels: ends the renewal of the members. */
static void end_renewal(struct rlock__group *group, struct rlock__group_step *ret_step)
{
    RLOCK__EACH_MEMBER(member, group) {
        if (!member->rests && member->renewed_from != 0 &&
            member->renewed_from <= staying(member)) {
            member->rests = true;
            ret_step->actions[ret_step->n++] = (struct rlock__action){
                .core = member->spec->core, .member = member, .todo = {.end_renewal = true}};
        }
    }
}

/* When the members' leases have ended at the latest. The effort in progress may ask for a lease
 * until it ends. */
static int64_t free_by(const struct rlock__group *group, int64_t now)
{
    const struct rlock__effort *effort = &group->effort;
    int64_t lease = effort->lease_us != 0 ? effort->lease_us : effort->renewed_lease_us;

    lease = rlock__max(lease, group->lease_granted_us);
    RLOCK__EACH_MEMBER(member, group) {
        if (member->view != NULL) {
            lease = rlock__max(lease, atomic_load(&member->view->valid_until) - now);
        }
    }
    return rlock__free_by(now + effort->op_timeout_us, lease);
}

static void describe(const struct rlock__group *group, int code, int64_t now,
                     struct rlock__texts *ret_texts)
{
    char name[96], more[48] = "";

    rlock__texts_clear(ret_texts);
    if (code == RLOCK_EINDOUBT) {
        ret_texts->facts.free_at = free_by(group, now);
        (void)snprintf(more, sizeof(more), "; it is free in %lld ms",
                       (long long)rlock__ms_up(free_by(group, now) - now));
    }
    if (code == RLOCK_ELOST) {
        ret_texts->facts.reason = group->reason;
    }
    (void)snprintf(ret_texts->detail, sizeof(ret_texts->detail), "lock %s: %s%s",
                   rlock__text(group->spec->name, name, sizeof(name)), rlock_strerror(code), more);
}

int rlock__group_owe(struct rlock__group *group, int64_t now, struct rlock__texts *ret_texts,
                     struct rlock__group_step *ret_step)
{
    int code = rlock__group_left(group) == 0 ? RLOCK_ENOTOWNER
               : group->lost                 ? RLOCK_ELOST
                                             : RLOCK_EINDOUBT;

    *ret_step = (struct rlock__group_step){.n = 0};
    describe(group, code, now, ret_texts);
    if (code == RLOCK_ENOTOWNER) {
        return code;
    }
    group->owed++;
    rlock__group_view_show(group);
    if (group->phase == RLOCK__GROUP_IDLE) {
        rlock__group_tidy(group);
        rlock__group_step(group, now, ret_step);
    } else if (rlock__group_left(group) == 0) {
        end_renewal(group, ret_step);
    }
    return code;
}

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
