/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The groups of a client, by hash. Each member of a group is in the table of its own client, by its
 * lock and owner, so that a client that loses a hold finds the groups of that hold. A group itself
 * is found by its first member, at the client of that member: the group's home.
 */
#ifndef RLOCK_MULTI_GROUPS_H
#define RLOCK_MULTI_GROUPS_H

#include "multi/group.h"

#define RLOCK__GROUP_PEERS 16

/* Zero is empty, but random must not be zero. */
struct rlock__groups {
    struct rlock__table members;
    uint64_t random; /* for jitter; not zero */
    /* Other libraries that take the same locks, by the hash of the group's spec. Groups that share
     * an entry treat each other's peers as their own. */
    struct {
        int64_t until;  /* until then a library that had the lock may come again */
        unsigned first; /* the member to wait for, counted from the program's first one */
    } peers[RLOCK__GROUP_PEERS];
    struct rlock_stats stats; /* of calls on groups whose first member is this client's */
};

/* Returns NULL if the owner has no level of the lock, and no operation on it. */
struct rlock__group *rlock__groups_find(const struct rlock__groups *groups,
                                        const struct rlock__group_spec *spec,
                                        struct rlock__owner owner) RLOCK__REQUIRES(groups);
void rlock__groups_join(struct rlock__groups *groups, struct rlock__member *member)
    RLOCK__REQUIRES(groups);
void rlock__groups_part(struct rlock__groups *groups, struct rlock__member *member)
    RLOCK__REQUIRES(groups);
/* Returns the next member, of any group, that lost its hold by this loss; loss: NULL: the next of
 * all members. after: NULL: the first one. */
struct rlock__member *rlock__groups_hit(const struct rlock__groups *groups,
                                        const struct rlock__loss *loss,
                                        const struct rlock__member *after) RLOCK__REQUIRES(groups);

#endif
