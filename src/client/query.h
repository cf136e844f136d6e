/* SPDX-License-Identifier: Apache-2.0 */
/* Queries: what a lock's servers are asked, and what comes of it. */
#ifndef RLOCK_CLIENT_QUERY_H
#define RLOCK_CLIENT_QUERY_H

#include "client/lock.h"

/* What one member is asked. */
struct rlock__query {
    struct rlock__inquiry *inquiry;
    struct rlock__spec *spec;
    struct rlock__call call;
    struct rlock__texts texts; /* the call's */
    struct rlock_info info;
    struct rlock__buf seen; /* the holders, in the form of the kind */
    bool forces_now;        /* the command under way does */
    unsigned commands;      /* so many were sent, or are about to be */
    bool opened;
    unsigned changes; /* how often its holder had changed meanwhile */
    int code;
};

struct rlock__inquiry {
    const struct rlock_handle *lock;
    bool forces;
    struct rlock_info info; /* of them all */
    struct rlock__op *op;   /* NULL: a thread waits for it */
    atomic_size_t running;  /* queries that are not complete; and 1 while they are begun */
    struct rlock__background background; /* of a lock made of locks: ends it at its home */
    struct rlock__query queries[];
};

/* ---- query_sum.c ---- */

/* The answer for the whole. ret_first: the first member that is held; NULL: none is. Returns the
 * code. */
int rlock__query_sum_inspected(const struct rlock__inquiry *inquiry, struct rlock_info *ret_info,
                               const struct rlock__query **ret_first);
int rlock__query_sum_forced(const struct rlock__inquiry *inquiry, bool *ret_was_locked);
/* Writes what a trace wants to know. tracing: NULL: nobody traces it. */
void rlock__query_trace(const struct rlock__inquiry *inquiry, struct rlock__tracing *tracing);

#endif
