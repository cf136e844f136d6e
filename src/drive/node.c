/* SPDX-License-Identifier: Apache-2.0 */
#include "drive/node.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "drive/router.h"

bool rlock__node_map(struct rlock_client *client, bool is_sentinel, struct rlock__uri *inout_place)
{
    struct rlock_address address = {
        .size = sizeof(address), .port = inout_place->port, .is_sentinel = is_sentinel};
    char *copy;

    if (client->opts.on_address == NULL || inout_place->host == NULL) {
        return true;
    }
    (void)snprintf(address.host, sizeof(address.host), "%s", inout_place->host);
    client->opts.on_address(&address, client->opts.payload);
    address.host[sizeof(address.host) - 1] = '\0';
    copy = strdup(address.host);
    if (copy == NULL) {
        return false;
    }
    free(inout_place->host);
    inout_place->host = copy;
    inout_place->port =
        address.port <= UINT16_MAX ? (uint16_t)address.port : 0; /* nobody answers there */
    return true;
}

RLOCK__ALONE static bool init_io(struct rlock__io *io, struct rlock__node *node,
                                 struct rlock__link *link)
{
    io->node = node;
    io->link = link;
    atomic_init(&io->fd, -1);
    io->conn = rlock__conn_new(&node->conn_opts);
    return io->conn != NULL;
}

RLOCK__ALONE struct rlock__node *rlock__node_new(struct rlock_client *client,
                                                 struct rlock__uri *uri, const char *address)
{
    struct rlock__node *node = calloc(1, sizeof(*node));
    bool good;

    if (node == NULL) {
        rlock__uri_fini(uri);
        return NULL;
    }
    node->client = client;
    node->uri = *uri;
    *uri = RLOCK__URI_NULL;
    node->conn_opts = client->conn_opts;
    node->conn_opts.uri = &node->place;
    node->conn_opts.names_plain = &node->names_plain;
    if (!rlock__uri_place(&node->uri, &node->place) ||
        !rlock__node_map(client, false, &node->place)) {
        return rlock__node_free(node);
    }
    if (address != NULL) {
        (void)snprintf(node->address, sizeof(node->address), "%s", address);
    } else {
        rlock__uri_address(&node->uri, node->address, sizeof(node->address));
    }
    node->server.address = node->address;
    node->sub.node = node;
    node->sub.conn = rlock__conn_new(&node->conn_opts);
    good = node->sub.conn != NULL;
    node->n_ios = client->n_links;
    for (size_t i = 0; i < node->n_ios; i++) {
        good = init_io(&node->ios[i], node, &node->server.links[i]) && good;
    }
    return good ? node : rlock__node_free(node);
}

RLOCK__ALONE struct rlock__node *rlock__node_free(struct rlock__node *node)
{
    if (node != NULL) {
        for (size_t i = 0; i < node->n_ios; i++) {
            (void)rlock__conn_free(node->ios[i].conn);
            rlock__buf_fini(&node->ios[i].out);
        }
        (void)rlock__conn_free(node->sub.conn);
        rlock__buf_fini(&node->sub.out);
        rlock__uri_fini(&node->uri);
        rlock__uri_fini(&node->place);
        free(node);
    }
    return NULL;
}

void rlock__node_add(struct rlock__node *node)
{
    struct rlock_client *client = node->client;
    struct rlock__node *last = client->nodes, *it;

    RLOCK__EACH_NODE(client, it) {
        last = it;
    }
    rlock__enter(client);
    rlock__core_add_server(&client->core, &node->server, 1, (unsigned)node->n_ios - 1);
    if (last == NULL) {
        client->nodes = node;
    } else {
        atomic_store(&last->next, node);
    }
    rlock__leave(client);
}

bool rlock__node_at(struct rlock_client *client, const struct rlock__uri *place,
                    const char *address)
{
    struct rlock__uri uri = RLOCK__URI_NULL;
    struct rlock__node *node = NULL;

    if (rlock__uri_place(place, &uri)) {
        node = rlock__node_new(client, &uri, address);
    }
    if (node == NULL) {
        return false;
    }
    rlock__node_add(node);
    rlock__enter(client);
    rlock__node_use(node, client->router == NULL);
    rlock__leave(client);
    return true;
}
