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

/* All zero but fire is a valid, unset one. */
struct rlock__timer {
    rlock__timer_fn *fire;
    int64_t at;
    uint64_t order;                         /* of setting: breaks ties */
    struct rlock__timer *parent, *child[2]; /* of a chain's first */
    struct rlock__timer *before, *behind;   /* in its chain */
    unsigned rank; /* nodes on its right edge, which is the shortest way down to an empty place */
    bool set;
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
/* When the earliest fires; RLOCK__NEVER if none is set. */
int64_t rlock__timers_next(const struct rlock__timers *timers);
/*
 * Fires those that are due at now, the earliest first, each once, and no more than so many; what
 * they set for now or earlier waits for the next call. Returns how many fired.
 */
size_t rlock__timers_fire(struct rlock__timers *timers, int64_t now, size_t most);

#endif
