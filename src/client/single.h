/* SPDX-License-Identifier: Apache-2.0 */
/* The handle of a lock of one key. */
#ifndef RLOCK_CLIENT_SINGLE_H
#define RLOCK_CLIENT_SINGLE_H

#include "client/lock.h"

struct rlock__single {
    struct rlock_handle lock;
    struct rlock__spec *spec;
    unsigned hash; /* the spec's: who asks for a hold need not look there */
};

static inline const struct rlock__single *rlock__single_of(const struct rlock_handle *lock)
{
    return (const struct rlock__single *)(const void *)lock;
}

/* ---- query.c ---- */

/* Asks the server who holds the lock. */
int rlock__single_inspect(struct rlock__spec *spec, struct rlock_info *ret_info);
/* Takes it from whoever holds it. */
int rlock__single_force(struct rlock__spec *spec, bool *ret_was_locked);

#endif
