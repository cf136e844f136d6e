/* SPDX-License-Identifier: Apache-2.0 */
/* How a group ends without an unlock: its hold is lost, or its owner is gone. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "multi/internal.h"
#include "multi/view.h"

static struct rlock__loss *loss_new(const struct rlock__group *group)
{
    const struct rlock__group_spec *spec = group->spec;
    struct rlock__loss *loss = calloc(1, sizeof(*loss) + spec->name.len + 1);

    if (loss != NULL) {
        memcpy(loss + 1, spec->name.at, spec->name.len);
        loss->spec = rlock__spec_ref(spec->first);
        loss->kind = spec->ops->kind;
        loss->name_len = (uint32_t)spec->name.len;
        loss->owner_id = group->owner.id;
        loss->given = group->owner.given;
    }
    return loss;
}

void rlock__group_prepare_loss(struct rlock__group *group)
{
    group->loss = group->loss != NULL ? group->loss : loss_new(group);
}

static void lose(struct rlock__group *group, enum rlock_reason reason)
{
    group->lost = true;
    group->reason = (int)reason;
    if (group->loss != NULL) {
        group->loss->reason = reason;
        group->loss->own = rlock__group_left(group);
        group->untold = group->loss;
        group->loss = NULL;
    }
    rlock__group_view_show(group);
}

/* Ends the hold, which nobody will unlock. */
static void end(struct rlock__group *group)
{
    group->count = group->owed = group->renewed_from = 0;
    group->lost = false;
    rlock__group_view_show(group);
}

void rlock__group_abandon(struct rlock__group *group, enum rlock_reason reason)
{
    if (group->count > 0 && !group->lost) {
        lose(group, reason);
    }
    end(group);
    RLOCK__EACH_MEMBER(member, group) {
        if (member->state == RLOCK__MEMBER_HELD) { /* the member's core forgets the hold */
            member->levels = member->renewed_from = 0;
            member->provisional = member->rests = false;
            member->state = RLOCK__MEMBER_OUT;
            member->view = rlock__view_unref(member->view);
        }
    }
}

void rlock__group_end_lost(struct rlock__group *group)
{
    assert(group->lost);
    end(group);
}

/* The whole is lost, and the members that are left are given back. */
static void lose_all(struct rlock__group *group, enum rlock_reason reason)
{
    lose(group, reason);
    if (reason == RLOCK_LOST_CLOSED || reason == RLOCK_LOST_OWNER_ENDED) {
        end(group);
    }
    if (group->phase == RLOCK__GROUP_IDLE || group->phase == RLOCK__GROUP_LEAVING) {
        rlock__group_shed(group); /* an unlock waits until the others are given back */
    }
}

void rlock__group_member_lost(struct rlock__group *group, enum rlock_reason reason, int64_t now)
{
    if (rlock__group_left(group) > 0 && !group->lost && rlock__group_valid_until(group) <= now) {
        lose_all(group, reason);
    }
}

void rlock__group_owner_end(struct rlock__group *group)
{
    group->is_ended = true;
    if (group->lost) {
        end(group);
    } else if (rlock__group_left(group) > 0) {
        lose_all(group, RLOCK_LOST_OWNER_ENDED);
    }
}
