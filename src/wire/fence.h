/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which generations of a link are fenced: a later connection has killed their connections, by the
 * ids that the server reported for them, so that the server can run nothing of them any more. The
 * server may report no id. Then nothing fences that generation, and those after it are fenced as
 * usual.
 */
#ifndef RLOCK_WIRE_FENCE_H
#define RLOCK_WIRE_FENCE_H

#include <stdbool.h>
#include <stdint.h>

#define RLOCK__NAMELESS_MAX 8 /* generations without an id that the fence knows apart */

/* Zero is a fence with no generation below it. Generations begin at 1. */
struct rlock__fence {
    uint64_t below;                         /* generations below it are fenced, */
    uint64_t nameless[RLOCK__NAMELESS_MAX]; /* but not these, in rising order */
    unsigned n;
    bool is_final; /* an id was forgotten, or there are more nameless ones: it fences no more */
};

/* The connections of all generations below this one were killed, as far as their ids are known. */
void rlock__fence_raise(struct rlock__fence *fence, uint64_t below);
/* A generation broke with a command on it, and the server had not reported its connection's id. */
void rlock__fence_add_nameless(struct rlock__fence *fence, uint64_t gen);
/* Another server took the place of the one that had this generation and all earlier ones. So they
 * count as fenced. */
void rlock__fence_replaced(struct rlock__fence *fence, uint64_t gen);
bool rlock__fence_has(const struct rlock__fence *fence, uint64_t gen);
/* Whether the generation, which broke, is fenced or can be. */
bool rlock__fence_can(const struct rlock__fence *fence, uint64_t gen);
/* Returns the one of two broken generations that is fenced last; 0 for none. */
uint64_t rlock__fence_last(const struct rlock__fence *fence, uint64_t a, uint64_t b);

#endif
