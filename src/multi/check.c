/* SPDX-License-Identifier: Apache-2.0 */
/* The invariants of a multi-lock or RedLock, and of its members. */
#include "multi/check.h"

#ifndef NDEBUG

#include <assert.h>

#include "lock/core/check.h"
#include "multi/view.h"

static bool runs(const struct rlock__member *member)
{
    return member->state == RLOCK__MEMBER_TAKING || member->state == RLOCK__MEMBER_LEAVING ||
           member->state == RLOCK__MEMBER_EXTENDING;
}

/* Whether another owner holds this member, and the member's channel will announce the release. */
static bool may_speak(const struct rlock__member *member)
{
    return member->group->spec->ops->on_message != NULL && member->tried && !member->running &&
           member->code == RLOCK_EBUSY && !rlock__ops_poll(member->spec->ops) &&
           (member->spec->ops->caps & RLOCK__CAP_QUEUES) == 0;
}

/* Whether the member counts for the validity of the group. */
static bool is_shown(const struct rlock__member *member)
{
    const struct rlock__group *group = member->group;

    return group->count > 0 &&
           atomic_load(&group->view->members[member - group->members].shown) != NULL;
}

static void check_member(const struct rlock__member *member)
{
    const struct rlock__group *group = member->group;
    bool idle = group->phase == RLOCK__GROUP_IDLE;

    assert(member->running == runs(member));
    assert(RLOCK__IMPLIES(member->state == RLOCK__MEMBER_OUT, member->levels == 0));
    assert(RLOCK__IMPLIES(member->state == RLOCK__MEMBER_HELD, member->levels > 0));
    assert(RLOCK__IMPLIES(member->state == RLOCK__MEMBER_LEAVING, member->levels > 0));
    assert(RLOCK__IMPLIES(member->state == RLOCK__MEMBER_EXTENDING, member->levels > 0));
    assert(RLOCK__IMPLIES(member->levels > 0, member->view != NULL));
    assert(RLOCK__IMPLIES(is_shown(member), rlock__member_staying(member) > 0));
    assert(member->renewed_from <= member->levels);
    assert(RLOCK__IMPLIES(member->rests, member->renewed_from != 0));
    assert(RLOCK__IMPLIES(member->todo.begin || member->todo.give_up, member->running));
    assert(RLOCK__IMPLIES(member->todo.listen, member->listening));
    assert(RLOCK__IMPLIES(group->phase == RLOCK__GROUP_PAUSING && may_speak(member),
                          member->listening ||
                              member->spoke)); /* the end of a listener counts as a message */
    assert(RLOCK__IMPLIES(idle && rlock__group_left(group) == 0,
                          member->state != RLOCK__MEMBER_HELD)); /* nobody would unlock it */
}

void rlock__group_check(const struct rlock__group *group)
{
    bool idle = group->phase == RLOCK__GROUP_IDLE, taking = group->phase == RLOCK__GROUP_TAKING;

    assert(group->owed <= group->count && group->renewed_from <= group->count);
    assert(RLOCK__IMPLIES(group->count > 0, group->view != NULL));
    assert(RLOCK__IMPLIES(!idle, atomic_load(&group->awaited)));
    assert(RLOCK__IMPLIES(!idle && !taking,
                          group->timer_at != RLOCK__NEVER)); /* an answer may never come */
    assert(RLOCK__IMPLIES(taking && group->first != NULL, group->first->running));
    RLOCK__EACH_MEMBER(member, group) {
        check_member(member);
    }
}

#endif
