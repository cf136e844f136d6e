/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The router of a client of a cluster: which node has a lock's slot. The core asks it for the way
 * and hands it every redirection. The service thread asks a node for CLUSTER NODES, over a
 * connection of the router's own, where the map is not known, may be old, or is ten seconds old.
 *
 * A node that was frozen, and replaced meanwhile, grants for a moment what it is asked when it goes
 * on. So a link to a node is not used before another node was asked for the map,
 * RLOCK__CONFIRM_US after the greeting at least: until then the node has heard itself that it was
 * replaced, or the map says it. Afterwards the answers show that the node was not frozen for long
 * (wire/pipeline.h, failover_us).
 */
#ifndef RLOCK_DRIVE_ROUTER_H
#define RLOCK_DRIVE_ROUTER_H

#include <poll.h>

#include "cluster/map.h"
#include "drive/client.h"

struct rlock__router {
    struct rlock_client *client;
    RLOCK__GUARDED_BY(core) struct {
        struct rlock__map map;
        bool is_wanted; /* the map may be old */
    };

    /* the service thread's own */
    struct rlock__node *asked;  /* whom the connection is to */
    struct rlock__node *itself; /* the same, as its latest answer calls it: a URL may have another
                                 * name for it; NULL unknown */
    struct rlock__conn *conn;
    struct rlock__conn_opts conn_opts;
    struct rlock__buf out;
    size_t sent;
    bool asking;         /* a question is under way */
    int64_t asked_at;    /* when the latest question began */
    int64_t answered_at; /* the latest that was answered began then; 0: none was */
    bool was_wanted;     /* somebody had said that the map is old */
    unsigned failures;   /* of questions in a row */
    unsigned long told;  /* changes of the map that the core knows */
};

/* NULL without memory. */
struct rlock__router *rlock__router_new(struct rlock_client *client);
struct rlock__router *rlock__router_free(struct rlock__router *router);
/* For the core: rlock__core.route and .redirect. */
struct rlock__server *rlock__router_route(struct rlock__core *core, const struct rlock__spec *spec);
enum rlock__redirect rlock__router_redirect(struct rlock__core *core,
                                            const struct rlock__link *link,
                                            const struct rlock__reply *reply,
                                            struct rlock__server **ret_server);
/* The map may be old. NULL: there is none. */
void rlock__router_want(struct rlock__router *router) RLOCK__REQUIRES(core);

/* ---- For the service thread: router.c what it learns, question.c how it asks ---- */

#define RLOCK__CONFIRM_US (100 * RLOCK__MS)

/* Whether the node has a link that is greeted and waits. */
static inline bool rlock__router_is_unconfirmed(const struct rlock__node *node)
{
    return node->greeted_at != 0 && !node->is_confirmed;
}

/* The answer to the latest question came, and tells of slots. It adds nodes. */
void rlock__router_learn(struct rlock__router *router, struct rlock__bytes text) RLOCK__NO_MUTEX;

/* What to poll its connection for. Returns when there is something to do. */
int64_t rlock__router_plan(struct rlock__router *router, struct pollfd *ret_fd)
    RLOCK__REQUIRES(core);
/* Asks, and learns. It adds nodes. */
void rlock__router_serve(struct rlock__router *router, int64_t now) RLOCK__NO_MUTEX;
/* Whether the node's new link, which is greeted, may be used. */
bool rlock__router_confirms(const struct rlock__router *router, struct rlock__node *node,
                            int64_t now) RLOCK__REQUIRES(send);

#endif
