/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The router of a client whose servers change: which node has a lock's key. The core asks it for
 * the way. The service thread asks others for that: in a cluster a node for CLUSTER NODES, or for
 * CLUSTER SLOTS where that is not permitted, else the Sentinels for the primary.
 *
 * A node that was frozen, and replaced meanwhile, grants what it is asked when it goes on. So a new
 * link to a node is not used before others were asked once more, after the greeting, and name it
 * still. Afterwards the answers show that the node was not frozen for long (wire/pipeline.h,
 * failover_us).
 */
#ifndef RLOCK_DRIVE_ROUTER_H
#define RLOCK_DRIVE_ROUTER_H

#include "drive/client.h"
#include "net/question.h"

/* Called by the functions of the same names below. */
struct rlock__router_ops {
    struct rlock__router *(*free)(struct rlock__router *router);
    void (*close)(struct rlock__router *router);
    int64_t (*plan)(struct rlock__router *router, struct pollfd *ret_fds);
    void (*serve)(struct rlock__router *router, int64_t now);
    bool (*leads)(struct rlock__router *router, const struct rlock__node *node);
};

struct rlock__router {
    const struct rlock__router_ops *ops;
    struct rlock_client *client;
    size_t n_polled;
    RLOCK__GUARDED_BY(core) struct {
        bool is_wanted; /* what it knows may be old */
    };
};

/* Each makes the client's router, and sets the core's callbacks. NULL without memory. */
struct rlock__router *rlock__cluster_new(struct rlock_client *client);
struct rlock__router *rlock__sentinels_new(struct rlock_client *client);

/* All of these take NULL: there is none. */

struct rlock__router *rlock__router_free(struct rlock__router *router);
/* Closes its connections: the service thread has ended. */
void rlock__router_close(struct rlock__router *router);
/* How many entries rlock__router_plan() fills in. */
static inline size_t rlock__router_polled(const struct rlock__router *router)
{
    return router != NULL ? router->n_polled : 0;
}
/* What it knows may be old. */
void rlock__router_want(struct rlock__router *router) RLOCK__REQUIRES(core);
/* For core.on_demoted: the same. */
void rlock__router_demoted(struct rlock__core *core) RLOCK__REQUIRES(core);
/* Whether a new link, which is greeted, may be used. */
bool rlock__router_confirms(const struct rlock__router *router, struct rlock__io *io, int64_t now)
    RLOCK__REQUIRES(send);

/* Whether locks are taken there: it is a primary as far as anybody knows, maybe one that has failed
 * and was not replaced. */
bool rlock__router_leads(struct rlock__router *router, const struct rlock__node *node)
    RLOCK__REQUIRES(core);
/* How a Sentinel is reached: by its number in the client's URL. What it points to is the client's.
 */
struct rlock__conn_opts rlock__sentinel_opts(const struct rlock_client *client, size_t which);

/* ---- For the service thread ---- */

/* What to poll its connections for. Returns when there is something to do. */
int64_t rlock__router_plan(struct rlock__router *router, struct pollfd *ret_fds)
    RLOCK__REQUIRES(core);
/* Asks, and learns. It adds nodes. */
void rlock__router_serve(struct rlock__router *router, int64_t now) RLOCK__NO_MUTEX;

/* ---- For routers ---- */

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
/* Calls that wait for this node are told why nothing is known. final: trying again will not help.
 */
void rlock__router_tell(struct rlock__node *node, int code, bool final,
                        const char *why) RLOCK__NO_MUTEX;

#endif
