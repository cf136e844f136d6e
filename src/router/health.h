/* SPDX-License-Identifier: Apache-2.0 */
/* Tells the core what a round of Sentinels reports about a primary's replicas, and its health. */
#ifndef RLOCK_ROUTER_HEALTH_H
#define RLOCK_ROUTER_HEALTH_H

#include "drive/node.h"
#include "router/sentinel.h"

/* Of the primary that Sentinels name. Zero: none was named. */
struct rlock__health {
    bool is_down;   /* most Sentinels held it down, in the latest round that named it */
    bool was_down;  /* the same of the one that it replaced */
    bool is_missed; /* that the replicas' names are unknown was logged */
    char former[RLOCK__STANDBY_PLACE]; /* that one, until the Sentinels list it; "" none */
    int64_t former_until;
};

/* Another primary is named from now on. */
void rlock__health_moves(struct rlock__health *health, const struct rlock__node *before,
                         struct rlock__node *node, int64_t now) RLOCK__REQUIRES(core);
/* A round that began at this time has named this node. Returns whether links for acknowledgements
 * are wanted now, and were not, or the other way round. */
bool rlock__health_learn(struct rlock__health *health, struct rlock__node *node,
                         const struct rlock__sentinel sentinels[], size_t n, int64_t round_at,
                         int64_t now) RLOCK__REQUIRES(core);

#endif
