/* SPDX-License-Identifier: Apache-2.0 */
#include "drive/router.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "cluster/nodes.h"
#include "cluster/redirect.h"
#include "cluster/slot.h"

struct rlock__router *rlock__router_new(struct rlock_client *client)
{
    struct rlock__router *router = calloc(1, sizeof(*router));

    if (router != NULL) {
        router->client = client;
    }
    return router;
}

RLOCK__ALONE struct rlock__router *rlock__router_free(struct rlock__router *router)
{
    if (router != NULL) {
        (void)rlock__conn_free(router->conn);
        rlock__buf_fini(&router->out);
        rlock__map_fini(&router->map);
        free(router);
    }
    return NULL;
}

/* ---- For the core ---- */

RLOCK__ALONE struct rlock__server *rlock__router_route(struct rlock__core *core,
                                                       const struct rlock__spec *spec)
{
    struct rlock_client *client = rlock__client_of(core);
    struct rlock__server *server = rlock__map_find(&client->router->map, spec->slot);
    struct rlock__node *node;

    if (server != NULL) {
        return server;
    }
    RLOCK__EACH_NODE(client, node) { /* any knows it, or says why not */
        if (atomic_load(&node->is_used)) {
            return &node->server;
        }
    }
    return &client->nodes->server;
}

void rlock__router_want(struct rlock__router *router)
{
    if (router != NULL) {
        router->is_wanted = true;
        router->client->service_looks = true;
    }
}

/* The node at this place; NULL: none is known. An empty host is that of the node that says so. */
static struct rlock__node *find(struct rlock_client *client, const struct rlock__node *says,
                                struct rlock__bytes host, uint16_t port)
{
    struct rlock__bytes own = rlock__bytes_of(says->uri.host);
    struct rlock__node *node;

    host = host.len != 0 ? host : own;
    RLOCK__EACH_NODE(client, node) {
        if (node->uri.port == port && rlock__bytes_equal(rlock__bytes_of(node->uri.host), host)) {
            return node;
        }
    }
    return NULL;
}

RLOCK__ALONE enum rlock__redirect rlock__router_redirect(struct rlock__core *core,
                                                         const struct rlock__link *link,
                                                         const struct rlock__reply *reply,
                                                         struct rlock__server **ret_server)
{
    struct rlock_client *client = rlock__client_of(core);
    struct rlock__redirection to;
    struct rlock__node *node;

    *ret_server = NULL;
    if (!rlock__redirection_read(reply, &to)) {
        return RLOCK__NO_REDIRECT;
    }
    node = find(client, rlock__node_of(link->server), to.host, to.port);
    if (node != NULL) {
        client->service_looks |= !atomic_exchange(&node->is_used, true); /* it makes the link */
        *ret_server = &node->server;
    }
    if (to.ask) {
        return RLOCK__ASK;
    }
    rlock__router_want(client->router);
    if (node != NULL) { /* without memory another one says it again */
        (void)rlock__map_told(&client->router->map, to.slot, *ret_server, rlock__now_us());
    }
    return RLOCK__MOVED;
}

/* ---- New links ---- */

bool rlock__router_confirms(const struct rlock__router *router, struct rlock__node *node,
                            int64_t now)
{
    if (router == NULL) {
        return true;
    }
    if (node->greeted_at == 0) {
        node->greeted_at = now;
        node->alive_at = rlock__conn_spoke_at(node->io.conn);
        node->is_confirmed = false;
    }
    return node->is_confirmed;
}

/* Whether no other node has answered of late. */
static bool is_last(const struct rlock__router *router)
{
    const struct rlock__node *node;

    RLOCK__EACH_NODE(router->client, node) {
        if (node != router->asked && node != router->itself &&
            node->silent_until <= router->asked_at) {
            return false;
        }
    }
    return true;
}

/* An answer came. That of a node itself confirms its link where no other node answers. */
RLOCK__REQUIRES(core) static void confirm(const struct rlock__router *router)
{
    struct rlock__node *node;

    RLOCK__EACH_NODE(router->client, node) {
        bool late = router->asked_at >= node->greeted_at + RLOCK__CONFIRM_US;
        bool own = node == router->asked || node == router->itself;

        if (!rlock__router_is_unconfirmed(node) || !late || (own && !is_last(router))) {
            continue;
        }
        node->is_confirmed = true;
        node->alive_at = own ? router->asked_at : node->alive_at;
    }
}

/* ---- The answer ---- */

/* With a NUL behind it; NULL without memory. */
static char *copy(struct rlock__bytes bytes)
{
    char *text = calloc(1, bytes.len + 1);

    if (text != NULL) {
        memcpy(text, bytes.at, bytes.len);
    }
    return text;
}

/* Has a node for each server that the answer names. Without memory one may be missing. */
static void add_nodes(struct rlock__router *router, struct rlock__bytes text)
{
    struct rlock_client *client = router->client;
    struct rlock__nodes_line line;
    char address[300];

    while (rlock__nodes_next(&text, &line)) {
        struct rlock__bytes host =
            line.host.len != 0 ? line.host : rlock__bytes_of(router->asked->uri.host);
        struct rlock__uri uri = {.tls = client->uri.tls, .port = line.port};
        struct rlock__node *node;

        if (line.is_away || rlock__bytes_equal(host, rlock__bytes_of("?")) ||
            find(client, router->asked, host, line.port) != NULL) {
            continue;
        }
        uri.host = copy(host);
        (void)snprintf(address, sizeof(address), "%s:%u", uri.host != NULL ? uri.host : "",
                       line.port);
        node = uri.host != NULL ? rlock__node_new(client, &uri, address) : NULL;
        if (node != NULL && !rlock__node_add(node)) {
            (void)rlock__node_free(node);
        }
    }
}

/* Notes what the answer says of each node. */
RLOCK__REQUIRES(core) static void learn(struct rlock__router *router, struct rlock__bytes text)
{
    struct rlock_client *client = router->client;
    struct rlock__nodes_line line;
    struct rlock__node *node;
    unsigned from, to;

    RLOCK__EACH_NODE(client, node) {
        node->is_primary = node->is_replaced = false;
    }
    while (rlock__nodes_next(&text, &line)) {
        node = line.is_away ? NULL : find(client, router->asked, line.host, line.port);
        if (node == NULL) {
            continue;
        }
        node->is_primary = line.is_primary && !line.has_failed;
        node->is_replaced = !node->is_primary;
        router->itself = line.is_asked ? node : router->itself;
        while (line.is_primary && rlock__nodes_range(&line.slots, &from, &to)) {
            atomic_store(&node->is_used, true);
            (void)rlock__map_learn(&router->map, from, to, &node->server, line.epoch,
                                   router->asked_at);
        }
    }
}

/* Tells the core what has changed. */
RLOCK__REQUIRES(core) static void tell(struct rlock__router *router, int64_t now)
{
    struct rlock__node *node;
    bool any = false;

    RLOCK__EACH_NODE(router->client, node) {
        bool gone = !node->is_primary && !node->server.links[0].pipeline.up;

        if (!atomic_load(&node->is_used) || rlock__map_has(&router->map, &node->server)) {
            continue;
        }
        if (node->is_replaced) {
            rlock__core_replaced(&node->server, now);
        }
        atomic_store(&node->is_used, !node->is_replaced && !gone);
        any = any || node->is_replaced || gone;
    }
    if (any || router->told != router->map.changes) {
        router->told = router->map.changes;
        rlock__core_rerouted(&router->client->core, now);
    }
}

void rlock__router_learn(struct rlock__router *router, struct rlock__bytes text)
{
    struct rlock_client *client = router->client;

    router->answered_at = router->asked_at;
    add_nodes(router, text);
    rlock__enter(client);
    router->failures = 0;
    router->asked->silent_until = 0;
    learn(router, text);
    confirm(router);
    tell(router, rlock__now_us());
    rlock__leave_and_drive(client);
}
