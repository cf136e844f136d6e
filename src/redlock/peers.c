/* SPDX-License-Identifier: Apache-2.0 */
#include "redlock/peers.h"

#include "base/uuid.h"
#include "multi/groups.h"

#define PEERS_US RLOCK__SECOND /* another library that held the lock may come again */

#define PEERS(group) (&(group)->all->peers[(group)->spec->hash % RLOCK__GROUP_PEERS])

/* The member to wait for: the program's first one, until rlock__peers_turn() goes on to others. */
static struct rlock__member *chosen(struct rlock__group *group)
{
    const struct rlock__group_spec *spec = group->spec;
    size_t at = 0;

    while (spec->members[at] != spec->first) {
        at++;
    }
    return &group->members[(at + PEERS(group)->first) % spec->n];
}

struct rlock__member *rlock__peers_first(struct rlock__group *group, int64_t now)
{
    struct rlock__member *first = chosen(group);
    bool waits = (first->spec->ops->caps & RLOCK__CAP_WAIT_QUEUE) != 0;

    if (group->first != NULL) { /* its server was silent in the round before */
        rlock__peers_forget(group);
    }
    if (group->effort.wait_us == 0 || now >= PEERS(group)->until || first->running || !waits) {
        return NULL;
    }
    return first;
}

void rlock__peers_note(const struct rlock__group *group, int64_t now)
{
    size_t n = 0; /* members that another library had in this round, when they were last asked */

    RLOCK__EACH_MEMBER(member, group) { /* a running call's texts belong to its core */
        n += member->tried && !member->running &&
             rlock__owner_is_foreign(rlock__bytes_of(member->texts.facts.holder));
    }
    if (n > group->spec->n - group->spec->quorum || (group->first != NULL && n > 0)) {
        PEERS(group)->until = now + PEERS_US;
    }
}

void rlock__peers_forget(const struct rlock__group *group)
{
    PEERS(group)->until = 0;
}

void rlock__peers_turn(const struct rlock__group *group)
{
    PEERS(group)->first++;
}
