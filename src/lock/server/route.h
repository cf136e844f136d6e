/* SPDX-License-Identifier: Apache-2.0 */
/* Where commands for a lock go, and what they need there. */
#ifndef RLOCK_LOCK_ROUTE_H
#define RLOCK_LOCK_ROUTE_H

#include "lock/core.h"

/* The link that commands for this lock go over now. A name stays on one link of its server. */
struct rlock__link *rlock__route(const struct rlock__spec *spec);
/*
 * The server that knows all subscribers of a lock's channel: its id in a cluster, "" for a single
 * server. "-": no server does. Channels may be those of the whole cluster. Or a key's server has
 * changed not long ago, and waiters may not have subscribed at the new one yet.
 */
struct rlock__bytes rlock__settled(const struct rlock__server *server, int64_t now);
/* The core has something to send to the server: has the driver connect it. */
void rlock__server_need(struct rlock__server *server, int64_t now);
/* Which replicas of this server must acknowledge a grant now. */
struct rlock__need rlock__acks_need(const struct rlock__server *server);
/* How many replicas of this server must acknowledge a grant now. If grants must be on disk, the
 * server itself is one more. 0: none. */
unsigned rlock__acks_needed(const struct rlock__server *server);
/* Whether that number may ever be more than 0, so that the server has links for
 * acknowledgements. */
static inline bool rlock__acks_are_possible(const struct rlock__server *server)
{
    const struct rlock__core *core = server->core;

    return core->opts.acks_on_disk || core->opts.acks > 0 ||
           (core->opts.acks != RLOCK_ACKS_OFF && server->replicas.n_known != 0);
}

#endif
