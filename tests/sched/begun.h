/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RLOCK_TEST_SCHED_BEGUN_H
#define RLOCK_TEST_SCHED_BEGUN_H

#include "stage.h"

/* An async call of an actor, which waits for it or does something else meanwhile. */
struct begun {
    struct rlock_op *op; /* NULL: it did not begin, and code says why */
    pthread_mutex_t mutex;
    pthread_cond_t told;
    bool begins;     /* the call has not returned */
    unsigned thread; /* of the call */
    bool complete;
    int code;
};

void begun_take(struct begun *begun, struct rlock_handle *lock, int64_t wait_ms,
                const struct rlock_take *take);
void begun_leave(struct begun *begun, struct rlock_handle *lock, uint64_t owner);

/* Waits for its completion, and returns its code. ret_grant: NULL of one that leaves. */
int begun_end(struct begun *begun, struct rlock_grant *ret_grant);

/* ---- Clients that the program's loops run ---- */

void loop_start(unsigned i, struct rlock_client *client);
void loop_stop(unsigned i);

#endif
