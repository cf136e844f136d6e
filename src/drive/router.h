/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client has a router if its servers change. The router knows which node has a lock's key. The
 * threads of drive call these functions. The routers themselves are above drive (src/router), and
 * drive reaches them through a table of operations.
 */
#ifndef RLOCK_DRIVE_ROUTER_H
#define RLOCK_DRIVE_ROUTER_H

#include "drive/client.h"

/* Called by the functions of the same names below. */
struct rlock__router_ops {
    struct rlock__router *(*free)(struct rlock__router *router);
    void (*close)(struct rlock__router *router);
    int64_t (*plan)(struct rlock__router *router);
    void (*serve)(struct rlock__router *router, int64_t now);
    bool (*leads)(struct rlock__router *router, const struct rlock__node *node);
};

struct rlock__router {
    const struct rlock__router_ops *ops;
    struct rlock_client *client;
    RLOCK__GUARDED_BY(core) struct {
        bool is_wanted; /* what it knows may be old */
        bool replans;   /* a link, or the map, has changed since it visited all nodes to plan */
    };
};

/* All of these functions accept NULL, for a client without a router. */

struct rlock__router *rlock__router_free(struct rlock__router *router);
/* Closes its connections: the service thread has ended. */
void rlock__router_close(struct rlock__router *router);
/* What it knows may be old. */
void rlock__router_want(struct rlock__router *router) RLOCK__REQUIRES(core);
/* A link is being made, was greeted or is up: when it plans next, it visits all nodes. */
void rlock__router_replan(struct rlock__router *router) RLOCK__REQUIRES(core);
/* For core.on_demoted: what it knows may be old. */
void rlock__router_demoted(struct rlock__core *core) RLOCK__REQUIRES(core);
/* Whether a new link, which is greeted, may be used. */
bool rlock__router_confirms(struct rlock__router *router, struct rlock__io *io, int64_t now)
    RLOCK__REQUIRES(send) RLOCK__REQUIRES(core);

/* Whether locks are taken there: it is a primary as far as anybody knows, maybe one that has failed
 * and was not replaced. */
bool rlock__router_leads(struct rlock__router *router, const struct rlock__node *node)
    RLOCK__REQUIRES(core);

/* ---- For the service thread ---- */

/* Returns when there is something to do. */
int64_t rlock__router_plan(struct rlock__router *router) RLOCK__REQUIRES(core);
/* Asks, and learns. It adds nodes. Registers its connections in client.nodes_fd, without data. */
void rlock__router_serve(struct rlock__router *router, int64_t now) RLOCK__NO_MUTEX;

#endif
