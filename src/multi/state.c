/* SPDX-License-Identifier: Apache-2.0 */
/* What a group has now, and what its members' calls are doing. */
#include "base/random.h"
#include "multi/groups.h"
#include "multi/internal.h"
#include "multi/view.h"

size_t rlock__group_running(const struct rlock__group *group)
{
    size_t n = 0;

    RLOCK__EACH_MEMBER(member, group) {
        n += member->running;
    }
    return n;
}

int64_t rlock__group_round_trip(const struct rlock__group *group)
{
    int64_t longest = 0;

    RLOCK__EACH_MEMBER(member, group) {
        longest = rlock__max(longest, atomic_load(&member->rtt));
    }
    return longest;
}

bool rlock__group_is_over(const struct rlock__group *group)
{
    bool over = group->count == 0 && group->phase == RLOCK__GROUP_IDLE;

    RLOCK__EACH_MEMBER(member, group) {
        over = over && !member->running && !member->listening;
    }
    return over;
}

int64_t rlock__group_valid_until(const struct rlock__group *group)
{
    return group->view != NULL ? rlock__group_view_valid_until(group->view) : 0;
}

int64_t rlock__group_last(const struct rlock__group *group)
{
    const struct rlock__effort *effort = &group->effort;

    return effort->wait_us == 0 ? group->deadline
                                : rlock__later(group->deadline, effort->op_timeout_us);
}

int64_t rlock__group_random(const struct rlock__group *group, int64_t n)
{
    return rlock__random_below(&group->all->random, n);
}

void rlock__group_drop(struct rlock__group *group, uint32_t n)
{
    group->count -= n;
    group->renewed_from = group->renewed_from > group->count ? 0 : group->renewed_from;
    group->lost = group->lost && group->count > 0;
    rlock__group_view_show(group);
}
