/* SPDX-License-Identifier: Apache-2.0 */
/* What routers do with nodes and their links. */
#ifndef RLOCK_ROUTER_INTERNAL_H
#define RLOCK_ROUTER_INTERNAL_H

#include "router/router.h"

/* ---- common.c ---- */

/* When the first of the node's links was greeted that wait to be confirmed; 0: none waits. */
int64_t rlock__router_waits(const struct rlock__node *node);
/* Those of its links may be used that were greeted by then. alive_at: the server certainly lived
 * then; 0: when it was greeted. */
void rlock__router_confirm(struct rlock__node *node, int64_t by, int64_t alive_at)
    RLOCK__REQUIRES(core);

/* The node at this place; NULL: none is known. */
struct rlock__node *rlock__router_find(const struct rlock_client *client, struct rlock__bytes host,
                                       uint16_t port);
/* The same, and makes one where there is none. NULL without memory. */
struct rlock__node *rlock__router_node(struct rlock_client *client, struct rlock__bytes host,
                                       uint16_t port) RLOCK__NO_MUTEX;
/* For so long a server must be silent before another one can be promoted in its place. */
void rlock__router_set_silence(struct rlock_client *client, int64_t ms) RLOCK__REQUIRES(core);
/* Another server may be the right one: its links end, and calls that wait for it learn that. */
void rlock__router_withhold(struct rlock__node *node, int64_t now) RLOCK__REQUIRES(core);
/* Fails the calls that wait for this node, with the reason. final: trying again will not help. */
void rlock__router_tell(struct rlock__node *node, int code, bool final,
                        const char *why) RLOCK__NO_MUTEX;

#endif
