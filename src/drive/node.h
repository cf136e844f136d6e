/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A node: one server as the driver has it, with the connections that the core's server asks for. A
 * client has one, or with a router (drive/router.h) one for each server that it has heard of.
 */
#ifndef RLOCK_DRIVE_NODE_H
#define RLOCK_DRIVE_NODE_H

#include <stdatomic.h>

#include "base/guarded.h"
#include "base/timer.h"
#include "lock/core.h"
#include "lock/server/route.h"
#include "net/conn.h"

#define RLOCK__NODE_LINKS 3 /* connections for commands, at most: for locks, and for acks */

/* What there is to do with a link. */
enum rlock__taken {
    RLOCK__NOTHING,
    RLOCK__TO_SEND,
    RLOCK__TO_LOOK_AND_SEND,
    RLOCK__TO_CLOSE,
};

/* A connection for commands. */
struct rlock__io {
    struct rlock__node *node; /* first: an event in client.nodes_fd names it */
    struct rlock__link *link; /* the core's */
    RLOCK__GUARDED_BY(send) struct {
        struct rlock__conn *conn;
        uint64_t gen;          /* of the connection while it is up; 0 else */
        struct rlock__buf out; /* taken from the core, part of it sent */
        size_t sent;
        size_t unnoted; /* bytes that went out, of which the core does not know yet */
        enum rlock__taken taken;
        struct rlock__io *taken_next;              /* in rlock__leave_and_drive() */
        struct rlock__io *stuck_prev, *stuck_next; /* in client.stuck */
    };
    atomic_ullong server; /* while it is up: a number that is another for every server; 0 unknown */
    atomic_int fd;        /* to poll; -1 down */
    atomic_bool stuck;    /* the socket is full: poll for writing too */
    atomic_bool wanted;   /* it is in client.wanted */
    /* written under the core's mutex */
    struct rlock__io *wanted_next;
    struct rlock__io *awaited_prev, *awaited_next; /* in client.awaited */
    bool is_awaited;                               /* it is there */
    /* The link that is being made: when it was greeted, 0 it is not; whether it may be used; when
     * the server certainly lived. The first two are written under the core's mutex, and all of them
     * with the send lock, or by the service thread alone. */
    int64_t greeted_at;
    bool is_confirmed;
    int64_t alive_at;
};

/* The connection for messages. The service thread's own. */
struct rlock__sub {
    struct rlock__node *node; /* first: an event in client.nodes_fd names it */
    struct rlock__conn *conn;
    bool is_ready; /* there may be something to read */
    struct rlock__buf out;
    size_t sent;
    bool up;
};

struct rlock__node {
    _Atomic(struct rlock__node *) next; /* of the client's */
    struct rlock_client *client;
    struct rlock__server server; /* what the core knows of it; under the core's mutex */
    struct rlock__io ios[RLOCK__NODE_LINKS];
    size_t n_ios;
    struct rlock__sub sub;
    /* When the service thread serves it next: in client.to_serve.due. Under the core's mutex. */
    struct rlock__timer due;
    struct rlock__node *due_next; /* the service thread's: the next node that is due */
    struct rlock__node *held_up_prev, *held_up_next; /* in client.to_serve.held_up */
    bool is_held_up;                                 /* it is there */
    atomic_bool is_used;                             /* links to it are made */
    /* Of a cluster, as the latest map says. Under the core's mutex. */
    bool is_primary, is_replaced;
    bool is_gone;       /* it has had no link for as long as a failover takes */
    bool is_outrun;     /* a server has its slots with a lower epoch: nothing proves a promotion */
    int64_t down_since; /* it has no link; 0: it has, or needs none */
    char id[48];        /* "" unknown */
    bool had_failed;    /* as a primary, and was none since */
    int64_t led_at;     /* the service thread's: the latest map that has it as a primary */
    int64_t silent_until;    /* the service thread's: it did not answer what the router asked */
    struct rlock__uri uri;   /* where it says it is; the login is the client's */
    struct rlock__uri place; /* where it is reached */
    struct rlock__conn_opts conn_opts; /* constant once the node is made: any thread copies them */
    atomic_bool names_plain; /* its cluster names plain ports; the service thread sets it */
    char address[300];       /* for texts */
};

#define RLOCK__EACH_NODE(client, node)                                                             \
    for ((node) = (client)->nodes; (node) != NULL; (node) = atomic_load(&(node)->next))

static inline struct rlock__io *rlock__io_next(struct rlock__io *io)
{
    struct rlock__node *node = io->node;

    if (++io < node->ios + node->n_ios) {
        return io;
    }
    node = atomic_load(&node->next);
    return node != NULL ? node->ios : NULL;
}

/* Of all nodes. */
#define RLOCK__EACH_IO(client, io)                                                                 \
    for ((io) = (client)->nodes != NULL ? (client)->nodes->ios : NULL; (io) != NULL;               \
         (io) = rlock__io_next(io))

static inline struct rlock__node *rlock__node_of(struct rlock__server *server)
{
    return RLOCK__OF(struct rlock__node, server, server);
}

/* A node of the client, not in its list yet. uri: where it is; the node takes it over, also when
 * this fails. address: for texts; NULL: uri's host and port. NULL without memory. */
struct rlock__node *rlock__node_new(struct rlock_client *client, struct rlock__uri *uri,
                                    const char *address) RLOCK__NO_MUTEX;
/* Lets the program rewrite the address of a server. Returns false without memory. */
bool rlock__node_map(struct rlock_client *client, bool is_sentinel,
                     struct rlock__uri *inout_place) RLOCK__NO_MUTEX;
/* Closes its connections; NULL is ok. Returns NULL. The core's server has ended before. */
struct rlock__node *rlock__node_free(struct rlock__node *node);
/* The client has it from now on, and the core its server. For the service thread, or before that
 * runs. */
void rlock__node_add(struct rlock__node *node) RLOCK__NO_MUTEX;
/* Both, of a node at the place that a URL names. Returns false without memory. */
bool rlock__node_at(struct rlock_client *client, const struct rlock__uri *place,
                    const char *address) RLOCK__NO_MUTEX;

/* The service thread serves the node at this time, or earlier. While the core makes no more
 * connections at the same time, it also serves the node as soon as the core makes more. */
void rlock__node_due(struct rlock__node *node, int64_t at) RLOCK__REQUIRES(core);
/* The same, at the time when the core next wants something of the service thread for the node. */
void rlock__node_changed(struct rlock__node *node) RLOCK__REQUIRES(core);
/* Whether links to it are made from now on. */
void rlock__node_use(struct rlock__node *node, bool is_used) RLOCK__REQUIRES(core);

/* Whether a link is wanted: one for acknowledgements where there are replicas. For the service
 * thread. */
static inline bool rlock__node_uses(const struct rlock__io *io)
{
    return atomic_load(&io->node->is_used) &&
           (io == io->node->ios || rlock__acks_are_possible(&io->node->server));
}

/* ---- serve.c, for the service thread: how its connections are made, and what comes on the one for
 * messages ---- */

void rlock__serve_link(struct rlock__io *io, int64_t now) RLOCK__NO_MUTEX;
void rlock__serve_sub(struct rlock__node *node, int64_t now) RLOCK__NO_MUTEX;

#endif
