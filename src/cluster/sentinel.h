/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What Sentinels say of the primary that they watch. Pure. Source: the Redis documentation of
 * Sentinel, "Guidelines for Redis clients with support for Redis Sentinel".
 */
#ifndef RLOCK_CLUSTER_SENTINEL_H
#define RLOCK_CLUSTER_SENTINEL_H

#include "wire/reply.h"

struct rlock__primary {
    char host[256]; /* "" unknown */
    uint16_t port;
    int64_t epoch;         /* of the configuration: grows with each failover */
    int64_t replicas;      /* that they know, up or down */
    int64_t down_after_ms; /* for so long it is silent at least before a replica is promoted */
};

/* The commands whose answers these two read, in this order. The epoch is read first: so it is never
 * newer than the address that goes with it. While a replica is being promoted only the second
 * command names it. False: the name does not fit. */
bool rlock__primary_ask(struct rlock__buf *out, const char *name);
/* Of SENTINEL MASTER: the epoch, the replicas and the time. False: it is not that. */
bool rlock__primary_read(const struct rlock__reply *reply, struct rlock__primary *ret_primary);
/* Of SENTINEL GET-MASTER-ADDR-BY-NAME: host and port. */
bool rlock__primary_read_place(const struct rlock__reply *reply,
                               struct rlock__primary *ret_primary);

/* Which of these to believe: the one of the highest epoch, of several such what most say, and else
 * what was known. Those that are unknown do not count. NULL: all are. */
const struct rlock__primary *rlock__primary_choose(const struct rlock__primary *said, size_t n,
                                                   const struct rlock__primary *known);
bool rlock__primary_is_same(const struct rlock__primary *one, const struct rlock__primary *other);

#endif
