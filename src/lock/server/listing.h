/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A primary's own list of its replicas. If replicas acknowledge, the client asks for the list every
 * second, by INFO replication. The log says which replicas are left out, are back, or do not count.
 */
#ifndef RLOCK_LOCK_LISTING_H
#define RLOCK_LOCK_LISTING_H

#include "lock/server/replicas.h"

struct rlock__link;
struct rlock__server;

void rlock__listing_init(struct rlock__server *server);
/* The link is up: asks at once. */
void rlock__listing_begin(struct rlock__link *link, int64_t now);
/* A map reports the replicas of the server; words NULL: only their number. Returns whether links
 * for acknowledgements are needed now and were not, or the other way round. */
bool rlock__listing_known(struct rlock__server *server, const struct rlock__replica_word words[],
                          size_t n, int64_t now);
/* The server executed a write that was sent at this time. In a cluster that proves the primary
 * alive: a primary that is cut off stops writing before another one can take its place. */
void rlock__listing_wrote(struct rlock__server *server, int64_t t0);
/* Before a list is read, and after: logs what has changed. */
void rlock__listing_expect(struct rlock__server *server);
void rlock__listing_tell(struct rlock__server *server);

#endif
