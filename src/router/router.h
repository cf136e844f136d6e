/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The routers. Each finds out which node has a lock's key. The core asks it for the node, and the
 * service thread runs it. In a cluster it asks the nodes for CLUSTER NODES, or for CLUSTER SLOTS if
 * they do not permit that. Behind Sentinels it asks those for the primary.
 *
 * A server that was frozen, and replaced meanwhile, grants what it is asked when it continues.
 * Therefore a new link is not used after its handshake until the router has asked others again, and
 * they still name the node. Afterwards the answers show that the node was not frozen for long
 * (wire/pipeline.h, failover_us).
 */
#ifndef RLOCK_ROUTER_ROUTER_H
#define RLOCK_ROUTER_ROUTER_H

#include "drive/router.h"

/* Each makes the client's router, and sets the core's callbacks. NULL without memory. */
struct rlock__router *rlock__cluster_new(struct rlock_client *client);
struct rlock__router *rlock__sentinels_new(struct rlock_client *client);

/* How a Sentinel is reached: by its number in the client's URL. What it points to is the client's.
 */
struct rlock__conn_opts rlock__sentinel_opts(const struct rlock_client *client, size_t which);

#endif
