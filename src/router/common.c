/* SPDX-License-Identifier: Apache-2.0 */
#include "router/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

#define LEAST_SILENCE_US (250 * RLOCK__MS) /* an election takes as long by itself */

static bool waits(const struct rlock__io *io)
{
    return io->greeted_at != 0 && !io->is_confirmed;
}

int64_t rlock__router_waits(const struct rlock__node *node)
{
    int64_t first = 0;

    for (size_t i = 0; i < node->n_ios; i++) {
        if (waits(&node->ios[i]) && (first == 0 || node->ios[i].greeted_at < first)) {
            first = node->ios[i].greeted_at;
        }
    }
    return first;
}

void rlock__router_confirm(struct rlock__node *node, int64_t by, int64_t alive_at)
{
    for (size_t i = 0; i < node->n_ios; i++) {
        struct rlock__io *io = &node->ios[i];

        if (waits(io) && io->greeted_at <= by) {
            io->is_confirmed = true;
            io->alive_at = alive_at != 0 ? alive_at : io->alive_at;
            rlock__node_due(node, 0);
        }
    }
}

struct rlock__node *rlock__router_find(const struct rlock_client *client, struct rlock__bytes host,
                                       uint16_t port)
{
    struct rlock__node *node;

    RLOCK__EACH_NODE(client, node) {
        if (node->uri.port == port && node->uri.host != NULL &&
            rlock__bytes_equal(rlock__bytes_of(node->uri.host), host)) {
            return node;
        }
    }
    return NULL;
}

/* With a NUL behind it; NULL without memory. */
static char *copy(struct rlock__bytes bytes)
{
    char *text = calloc(1, bytes.len + 1);

    if (text != NULL) {
        memcpy(text, bytes.at, bytes.len);
    }
    return text;
}

struct rlock__node *rlock__router_node(struct rlock_client *client, struct rlock__bytes host,
                                       uint16_t port)
{
    struct rlock__uri uri = {.tls = client->uri.tls, .port = port, .db = client->uri.db};
    struct rlock__node *node = rlock__router_find(client, host, port);

    if (node != NULL) {
        return node;
    }
    uri.host = copy(host);
    if (uri.host == NULL) {
        return NULL;
    }
    node = rlock__node_new(client, &uri, NULL);
    if (node != NULL) {
        rlock__node_add(node);
    }
    return node;
}

void rlock__router_set_silence(struct rlock_client *client, int64_t ms)
{
    int64_t us = rlock__max(rlock__reported_ms(ms), LEAST_SILENCE_US);
    struct rlock__io *io;

    client->core.opts.failover_us = us;
    RLOCK__EACH_IO(client, io) {
        io->link->pipeline.failover_us = us;
    }
}

void rlock__router_withhold(struct rlock__node *node, int64_t now)
{
    char why[RLOCK__DETAIL_SIZE];

    (void)snprintf(why, sizeof(why), "%s: not used for now", node->address);
    for (size_t i = 0; i < node->n_ios; i++) {
        rlock__link_withhold(node->ios[i].link, why, now);
        rlock__core_link_down(node->ios[i].link, 0, RLOCK_ECONN, false, why, now);
    }
}

void rlock__router_tell(struct rlock__node *node, int code, bool final, const char *why)
{
    struct rlock__link *link = &node->server.links[0];

    rlock__enter(node->client);
    if (!link->pipeline.up) {
        rlock__core_link_down(link, 0, code, final, why, rlock__now_us());
    }
    rlock__leave(node->client);
}
