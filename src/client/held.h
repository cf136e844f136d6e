/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What one thread holds: a table of claims, one for each lock. Looking, adding and forgetting cost
 * the same whatever is in it, and adding cannot fail: without memory to grow its chains get longer.
 *
 * A claim that another thread ended, by closing the client or forcing the lock, stays until it is
 * swept out, which happens before the table grows.
 *
 * Threads: its own alone; zero is an empty table.
 */
#ifndef RLOCK_CLIENT_HELD_H
#define RLOCK_CLIENT_HELD_H

#include "lock/call.h"

#define RLOCK__HELD_FIRST 16 /* chains there are without asking for memory; a power of two */

struct rlock__held {
    struct rlock__claim *first[RLOCK__HELD_FIRST];
    struct rlock__claim **more; /* in place of them; NULL there are no others */
    size_t n_more, n;
};

/* Takes over the reference. A claim of the same lock leaves. */
void rlock__held_add(struct rlock__held *held, struct rlock__claim *claim);
/* NULL: there is none, or it is over. hash: the spec's, which is not looked into for it: with
 * thousands of locks each place that is looked at is a cache miss. */
const struct rlock__claim *rlock__held_find(struct rlock__held *held,
                                            const struct rlock__spec *spec, unsigned hash);
/* Takes out the lock's claim if it is over. */
void rlock__held_forget(struct rlock__held *held, const struct rlock__spec *spec);
/* Takes out all that are over. */
void rlock__held_sweep(struct rlock__held *held);
/* Takes out a claim and hands over its reference. inout_chain: 0 at first, then left alone until
 * this returns NULL: the table is empty, and freed. */
struct rlock__claim *rlock__held_take(struct rlock__held *held, size_t *inout_chain);

#endif
