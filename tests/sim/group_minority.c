/* SPDX-License-Identifier: Apache-2.0 */
/* What a RedLock may wait for while it has a part of its members and keeps others out. */
#include <limits.h>

#include "groups.h"

#define LAG (10 * RLOCK__MS) /* of threads that wake late */

static void violate(const struct sim_owner *owner, const char *what)
{
    sim_violate(sim_home(owner->process->all), "process %u owner %llu, lock %u: %s",
                owner->process->index, (unsigned long long)owner->owner.id, owner->lock, what);
}

/* Whether a member's call waits for a link that broke, or could not be made, with nothing sent. */
static bool waits_for_the_dead(const struct rlock__member *member)
{
    const struct rlock__server *server = member->spec->core->servers;
    const struct rlock__request *request = member->call.request;

    return member->state == RLOCK__MEMBER_TAKING && member->running && !member->todo.begin &&
           !member->todo.give_up && member->call.core != NULL &&
           member->call.step == RLOCK__ASKING && request != NULL && request->copies == 0 &&
           !server->links[0].pipeline.up && server->links[0].code != 0;
}

/* How long a RedLock may wait for those of its members that are silent; RLOCK__NEVER for ever. */
static int64_t patience(const struct sim_owner *owner)
{
    const struct rlock__group *group = owner->group;
    int64_t usual = owner->answered_at - owner->round_at;
    size_t has = 0, silent = 0;

    for (size_t i = 0; i < group->spec->n; i++) {
        const struct rlock__member *member = &group->members[i];
        int64_t rtt = atomic_load(&member->rtt); /* as its call began */

        has += member->state == RLOCK__MEMBER_HELD && atomic_load(&member->view->valid_until) != 0;
        silent += member->running;
        usual = rlock__max(usual, rtt);
        if (member->running && rtt == 0) {
            return RLOCK__NEVER;
        }
    }
    return has == 0 || silent > group->spec->n / 2
               ? RLOCK__NEVER
               : rlock__max(owner->round_at + 2 * usual, owner->answered_at + 5 * RLOCK__MS);
}

void sim_groups_check_minority(struct sim_owner *owner, int64_t now)
{
    const struct rlock__group *group = owner->group;
    unsigned answers = 0;

    if (group->spec->ops != &rlock__redlock_ops || group->phase != RLOCK__GROUP_TAKING ||
        group->count > 0 || !owner->calling) {
        owner->round = UINT_MAX; /* none */
        return;
    }
    for (size_t i = 0; i < group->spec->n; i++) {
        answers += !group->members[i].running;
        if (waits_for_the_dead(&group->members[i])) {
            violate(owner, "waits for a server that is known to be down");
        }
    }
    bool is_new = owner->round != group->rounds || owner->waits_first != (group->first != NULL);
    owner->round_at = is_new ? now : owner->round_at;
    if (is_new || owner->answers != answers) {
        owner->answered_at = now;
    }
    owner->round = group->rounds;
    owner->waits_first = group->first != NULL;
    owner->answers = answers;
    if (!owner->excused && now - LAG > patience(owner)) {
        violate(owner, "keeps a minority, and waits for servers that are silent");
    }
}
