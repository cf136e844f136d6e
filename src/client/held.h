/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What one thread holds: a table of views, one for each lock. A view that another thread ended,
 * by closing the client or forcing the lock, stays until it is swept out, which happens before
 * there are twice as many. Threads: its own alone; zero is an empty table.
 */
#ifndef RLOCK_CLIENT_HELD_H
#define RLOCK_CLIENT_HELD_H

#include "lock/call.h"

struct rlock__held {
    struct rlock__table views;
    size_t n_swept; /* how many the latest sweep left */
};

/* Takes over the reference. A view of the same lock leaves. */
void rlock__held_add(struct rlock__held *held, struct rlock__view *view);
/* NULL: there is none, or it is over. hash: the spec's, which is not looked into for it: with
 * thousands of locks each place that is looked at is a cache miss. */
const struct rlock__view *rlock__held_find(const struct rlock__held *held,
                                           const struct rlock__spec *spec, unsigned hash);
/* Takes out the lock's view if it is over. */
void rlock__held_forget(struct rlock__held *held, const struct rlock__spec *spec);
/* Takes out all that are over. */
void rlock__held_sweep(struct rlock__held *held);
/* Takes out a view and hands over its reference, as rlock__table_take() does. */
struct rlock__view *rlock__held_take(struct rlock__held *held, size_t *inout_chain);

#endif
