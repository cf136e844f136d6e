/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where groups are found, by hash. Each client has a home. Each member of a group is in that of its
 * own client, by its lock and owner, so that who hears of a lost hold finds the groups that it is
 * part of. A group itself is found by its first member.
 */
#ifndef RLOCK_MULTI_HOME_H
#define RLOCK_MULTI_HOME_H

#include "multi/group.h"

#define RLOCK__HOME_PEERS 16

/* Zero is an empty one, but for random. */
struct rlock__home {
    struct rlock__table members;
    uint64_t random; /* jitter; not zero */
    /* other libraries that take the same locks, by the hash of the group's spec. Groups that share
     * an entry take each other's peers for theirs */
    struct {
        int64_t until;  /* until then a library that had the lock may come again */
        unsigned first; /* the member to wait for, counted from the program's first one */
    } peers[RLOCK__HOME_PEERS];
};

/* NULL: the owner has nothing of the lock, and nothing under way. */
struct rlock__group *rlock__home_find(const struct rlock__home *home,
                                      const struct rlock__group_spec *spec,
                                      struct rlock__owner owner) RLOCK__REQUIRES(home);
void rlock__home_join(struct rlock__home *home, struct rlock__member *member) RLOCK__REQUIRES(home);
void rlock__home_part(struct rlock__home *home, struct rlock__member *member) RLOCK__REQUIRES(home);
/* The members of any groups that are of the hold which was lost (NULL: all members), one after the
 * other; after: NULL the first. */
struct rlock__member *rlock__home_hit(const struct rlock__home *home,
                                      const struct rlock__loss *loss,
                                      const struct rlock__member *after) RLOCK__REQUIRES(home);

#endif
