/* SPDX-License-Identifier: Apache-2.0 */
/* Where commands for a lock go, and what they need there. */
#ifndef RLOCK_LOCK_ROUTE_H
#define RLOCK_LOCK_ROUTE_H

#include "lock/core.h"

/* The link that commands for this lock go over now. A name stays on one link of its server. */
struct rlock__link *rlock__route(const struct rlock__spec *spec);
/*
 * Where who hears a channel is known to the server: its id in a cluster, "" where there is one
 * server. "-" nowhere: the channels are those of all servers, or a key's server was another one not
 * long ago, and who waits may not have subscribed there yet.
 */
struct rlock__bytes rlock__settled(const struct rlock__server *server, int64_t now);
/* Something is to be sent to the server: its connections are made. */
void rlock__server_need(struct rlock__server *server, int64_t now);
/* Which replicas of this server must have what is granted now. */
struct rlock__need rlock__acks_need(const struct rlock__server *server);
/* How many replicas of this server must have what is granted now; where it is to be on disk, this
 * server is one more. 0: nothing is asked for. */
unsigned rlock__acks_needed(const struct rlock__server *server);
/* Whether that may be another number soon, so that links for it are kept. */
bool rlock__acks_are_possible(const struct rlock__server *server);

#endif
