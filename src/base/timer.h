/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Timers in a leftist heap (Crane 1972): setting one never fails, and each single operation takes
 * steps by the logarithm of their number, whatever was done before. Equal times fire in the order
 * in which they were set, so that a run can be repeated exactly. What is set one after the other
 * for the same time, as are the holds that one answer renewed, shares a place in the heap: of such
 * a chain each but the first takes a few steps, however many timers there are.
 */
#ifndef RLOCK_BASE_TIMER_H
#define RLOCK_BASE_TIMER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/time.h"

struct rlock__timer;
struct rlock__timers;

/* Runs with the timer unset; may set it again. */
typedef void rlock__timer_fn(struct rlock__timer *timer, int64_t now);

/* All zero but fire is a valid, unset one. There are as many as holds: it is small. */
struct rlock__timer {
    rlock__timer_fn *fire;
    int64_t at;
    uint64_t order : 48; /* of setting: breaks ties; enough for nine years of a million a second */
    uint64_t rank : 8;   /* nodes on its right edge: the shortest way down to an empty place */
    uint64_t set : 1;
    uint64_t chained : 1; /* in its chain there is one before it */
    union {
        struct rlock__timer *parent; /* of a chain's first, as are the children */
        struct rlock__timer *before; /* of one that is chained */
    };
    struct rlock__timer *child[2];
    struct rlock__timer *behind; /* in its chain */
};

struct rlock__timers {
    struct rlock__timer *root;
    struct rlock__timer *latest; /* the last of the chain that the latest setting made longer */
    uint64_t order;
};

/* Sets a timer, or moves one that is set. RLOCK__NEVER unsets it. */
void rlock__timer_set(struct rlock__timers *timers, struct rlock__timer *timer, int64_t at);
/* Unsets a timer; harmless if it is not set. */
void rlock__timer_unset(struct rlock__timers *timers, struct rlock__timer *timer);
/* When it fires; RLOCK__NEVER if it is not set. */
static inline int64_t rlock__timer_at(const struct rlock__timer *timer)
{
    return timer->set ? timer->at : RLOCK__NEVER;
}
/* When the earliest fires; RLOCK__NEVER if none is set. */
static inline int64_t rlock__timers_next(const struct rlock__timers *timers)
{
    return timers->root != NULL ? timers->root->at : RLOCK__NEVER;
}
/*
 * Fires those that are due at now, the earliest first, each once, and no more than so many; what
 * they set for now or earlier waits for the next call. Returns how many fired.
 */
size_t rlock__timers_fire(struct rlock__timers *timers, int64_t now, size_t most);

#endif
