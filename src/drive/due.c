/* SPDX-License-Identifier: Apache-2.0 */
/* When the service thread serves a node next. */
#include <utlist.h>

#include "drive/client.h"

void rlock__node_due(struct rlock__node *node, int64_t at)
{
    struct rlock_client *client = node->client;

    if (at < rlock__timer_at(&node->due)) {
        rlock__timer_set(&client->to_serve.due, &node->due, at);
    }
    if (client->core.n_connecting >= RLOCK__CONNECTING_MAX && !node->is_held_up) {
        node->is_held_up = true;
        DL_APPEND2(client->to_serve.held_up, node, held_up_prev, held_up_next);
    }
}

/* A link that was greeted waits until the router confirms it. */
RLOCK__REQUIRES(core) static int64_t link_next(const struct rlock__io *io)
{
    if (io->link->pipeline.up || !rlock__node_uses(io)) {
        return RLOCK__NEVER;
    }
    return io->greeted_at == 0 ? rlock__link_due(io->link) : io->is_confirmed ? 0 : RLOCK__NEVER;
}

/* When the core next wants something of the service thread for the node. */
RLOCK__REQUIRES(core) static int64_t node_next(const struct rlock__node *node)
{
    const struct rlock__server *server = &node->server;
    bool is_silent = !server->sub.up && server->channels.n == 0; /* as with most locks */
    int64_t next = is_silent ? RLOCK__NEVER : rlock__subscriber_due(server);

    next = server->sub.out.len != 0 ? 0 : next;
    for (size_t i = 0; i < node->n_ios; i++) {
        next = rlock__min(next, link_next(&node->ios[i]));
    }
    return next;
}

void rlock__node_changed(struct rlock__node *node)
{
    rlock__node_due(node, node_next(node));
}

void rlock__node_use(struct rlock__node *node, bool is_used)
{
    if (atomic_exchange(&node->is_used, is_used) != is_used) {
        rlock__node_due(node, 0);
    }
}
