/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses what Sentinels report about their primary. Pure. Source: the Redis documentation of
 * Sentinel, "Guidelines for Redis clients with support for Redis Sentinel".
 */
#ifndef RLOCK_TOPOLOGY_SENTINEL_H
#define RLOCK_TOPOLOGY_SENTINEL_H

#include "wire/reply.h"

#define RLOCK__SENTINEL_ID 40 /* characters */

struct rlock__primary {
    char host[256]; /* "" unknown */
    uint16_t port;
    int64_t epoch;         /* of the configuration: grows with each failover */
    int64_t replicas;      /* that they know, up or down */
    int64_t down_after_ms; /* for so long it is silent at least before a replica is promoted */
    int64_t silence_ms;    /* how long ago it answered the Sentinel's PING; -1 unknown */
    bool is_down;          /* the Sentinel holds it down */
};

/* Which commands a Sentinel is asked. */
struct rlock__sentinel_asks {
    bool id;    /* of the Sentinel itself */
    bool peers; /* the other Sentinels that it knows */
};

/*
 * The commands, in this order: SENTINEL MYID and SENTINEL SENTINELS where they are wanted, SENTINEL
 * MASTER, SENTINEL REPLICAS (standby.h), SENTINEL GET-MASTER-ADDR-BY-NAME. The epoch is read before
 * the address: so it is never newer than the address that goes with it. While a replica is being
 * promoted only the last command names it. False: the name does not fit.
 */
bool rlock__primary_ask(struct rlock__buf *out, const char *name, struct rlock__sentinel_asks asks);
/* Of SENTINEL SENTINELS: writes a line for each peer, "id address:port". */
void rlock__primary_read_peers(const struct rlock__reply *reply, struct rlock__buf *out);
/* Of SENTINEL MASTER: all but the place. False: it is not that. */
bool rlock__primary_read(const struct rlock__reply *reply, struct rlock__primary *ret_primary);
/* Of SENTINEL GET-MASTER-ADDR-BY-NAME: host and port. */
bool rlock__primary_read_place(const struct rlock__reply *reply,
                               struct rlock__primary *ret_primary);

bool rlock__primary_is_same(const struct rlock__primary *one, const struct rlock__primary *other);

#endif
