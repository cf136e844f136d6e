/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses what Sentinels report about a primary's replicas. A single Sentinel may have lost its
 * connections to all of them. So a replica counts as down, or as barred, only if more than half of
 * the configured Sentinels say so. Sentinels that do not answer count as configured too. Pure.
 * Source: the Redis documentation of Sentinel.
 */
#ifndef RLOCK_TOPOLOGY_STANDBY_H
#define RLOCK_TOPOLOGY_STANDBY_H

#include "wire/reply.h"

#define RLOCK__STANDBYS 32
#define RLOCK__STANDBY_PLACE 72 /* of "address:port" */

struct rlock__standby {
    char place[RLOCK__STANDBY_PLACE]; /* "" it does not fit */
    bool is_down, is_barred;          /* barred: nobody promotes it, its priority is 0 */
    bool is_free;                     /* so many say that it is not barred, and not down */
    bool is_unlinked;                 /* by its own word it has had no primary for 5 s, or never */
    /* of all that were asked: so many Sentinels say so */
    unsigned n_down, n_barred, n_free, n_unlinked;
};

struct rlock__standbys {
    bool is_known; /* else there is no answer, or too long a one */
    size_t n;
    struct rlock__standby each[RLOCK__STANDBYS];
};

/* Of SENTINEL REPLICAS. */
void rlock__standbys_read(const struct rlock__reply *reply, struct rlock__standbys *ret_standbys);
/* All replicas that any of these Sentinels knows; configured: Sentinels of the client's URL. */
void rlock__standbys_merge(const struct rlock__standbys *const said[], size_t n, size_t configured,
                           struct rlock__standbys *ret_all);
/* The latest time after which more than half of the configured Sentinels have seen the primary;
 * sorts the times. INT64_MIN: so many have not. */
int64_t rlock__alive_by_most(int64_t inout_at[], size_t n, size_t configured);

#endif
