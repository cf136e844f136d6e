/* SPDX-License-Identifier: Apache-2.0 */
/* The handle of a lock. */
#ifndef RLOCK_CLIENT_LOCK_H
#define RLOCK_CLIENT_LOCK_H

#include "client/client.h"

/* A hundred years: sums of microseconds still fit. */
#define RLOCK__TIME_MAX_MS (INT64_C(100) * 366 * 24 * 3600 * 1000)

struct rlock__composite;

/* What a member said in the latest call. */
struct rlock__result {
    bool held;
    int code;
    char detail[RLOCK__DETAIL_SIZE];
};

struct rlock {
    struct rlock__spec *spec;           /* of a composite: its first member's */
    struct rlock_client *client;        /* the spec's; who asks for a hold need not look there */
    unsigned hash;                      /* the spec's */
    struct rlock__composite *composite; /* NULL: a lock of its own */
    struct rlock__result *results;      /* of a composite: one for each member */
};

static inline struct rlock rlock__lock_of(struct rlock__spec *spec)
{
    return (struct rlock){.spec = spec, .client = rlock__client_of(spec->core), .hash = spec->hash};
}

/* The beginning of every call: forgets the thread's last detail, checks the handle. */
int rlock__lock_begin(const struct rlock *lock);

#endif
