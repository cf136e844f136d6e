/* SPDX-License-Identifier: Apache-2.0 */
/* How the service thread makes a node's connections, and what it does with the one for messages. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "drive/client.h"
#include "drive/router.h"

/* ---- The link ---- */

/* 0 of nothing. */
static uint64_t server_number(const char *run_id)
{
    return run_id[0] == '\0' ? 0 : rlock__bytes_fnv(rlock__bytes_of(run_id));
}

RLOCK__REQUIRES(core)
static void found_version(struct rlock__node *node, const struct rlock__greeting *got)
{
    if (node->client->core.driver.slot != NULL) { /* other servers have no sharded channels */
        rlock__server_found_version(&node->server, got->version);
    }
}

RLOCK__REQUIRES(send) static void link_up(struct rlock__io *io)
{
    struct rlock__node *node = io->node;
    struct rlock__server *server = &node->server;
    const struct rlock__greeting *got = rlock__conn_greeting(io->conn);
    int64_t now = rlock__now_us();

    atomic_store(&io->server, server_number(got->run_id));
    atomic_store(&io->fd, rlock__conn_fd(io->conn));
    rlock__enter(node->client);
    found_version(node, got);
    io->link->pipeline.alive_at = io->alive_at;
    io->greeted_at = 0;
    rlock__core_found(server, got->run_id, got->uptime_s, now);
    io->gen = rlock__core_link_up(io->link, got->client_id, got->fenced, now);
    rlock__router_replan(node->client->router);
    rlock__leave_with_link(node->client);
    rlock__link_is_up(io);
}

/* Begins to make the link when it is time, and goes on with that. Returns 0, or why it cannot be
 * made. */
RLOCK__REQUIRES(send) static int make_link(struct rlock__io *io, int64_t now)
{
    struct rlock_client *client = io->node->client;
    uint64_t unfenced[RLOCK__UNFENCED_MAX];
    size_t n;
    bool due;

    rlock__enter(client);
    due = now >= rlock__link_due(io->link);
    n = due ? rlock__link_begin(io->link, unfenced) : 0;
    if (due) {
        rlock__router_replan(client->router);
    }
    rlock__core_mutex_unlock(&client->mutex);
    return due ? rlock__conn_start(io->conn, unfenced, n, now) : rlock__conn_step(io->conn, now);
}

/* Whether the link, which is greeted, may be used. */
RLOCK__REQUIRES(send) static bool is_confirmed(struct rlock__io *io, int64_t now)
{
    struct rlock_client *client = io->node->client;
    bool confirmed;

    rlock__enter(client);
    confirmed = rlock__router_confirms(client->router, io, now);
    rlock__core_mutex_unlock(&client->mutex);
    return confirmed;
}

void rlock__serve_link(struct rlock__io *io, int64_t now)
{
    struct rlock__node *node = io->node;
    char why[RLOCK__DETAIL_SIZE];

    rlock__take_link(node->client);
    if (io->gen == 0 && rlock__node_uses(io)) {
        int code = io->greeted_at == 0 ? make_link(io, now) : 0;

        if (code != 0) {
            rlock__link_broke(io, code, rlock__conn_error(io->conn));
        } else if (rlock__conn_is_up(io->conn) && is_confirmed(io, now)) {
            link_up(io);
        }
    } else if (io->gen == 0 && rlock__conn_fd(io->conn) >= 0) {
        (void)snprintf(why, sizeof(why), "%s: %s", node->address,
                       atomic_load(&node->is_used) ? "it has no replicas any more"
                                                   : "another server has taken its place");
        rlock__link_broke(io, RLOCK_ECONN, why);
    }
    rlock__give_link(node->client);
}

/* ---- The subscriber connection ---- */

static void sub_failed(struct rlock__node *node)
{
    struct rlock__sub *sub = &node->sub;

    rlock__enter(node->client);
    rlock__core_sub_down(&node->server, rlock__now_us());
    rlock__leave(node->client);
    rlock__conn_close(sub->conn);
    rlock__buf_clear(&sub->out);
    sub->sent = 0;
    sub->up = false;
}

/* Sends what the core has for the subscriber connection. */
static int sub_flush(struct rlock__node *node)
{
    struct rlock__sub *sub = &node->sub;
    struct rlock__buf *wanted = &node->server.sub.out;
    bool whole;
    ssize_t n;

    rlock__enter(node->client);
    whole = !wanted->failed && rlock__buf_add(&sub->out, wanted->data, wanted->len);
    rlock__buf_clear(wanted);
    rlock__core_mutex_unlock(&node->client->mutex);
    if (!whole) {
        return RLOCK_ENOMEM;
    }
    if (sub->sent < sub->out.len) {
        n = rlock__conn_write(sub->conn, sub->out.data + sub->sent, sub->out.len - sub->sent);
        if (n < 0) {
            return (int)n;
        }
        sub->sent += (size_t)n;
        if (sub->sent == sub->out.len) {
            rlock__buf_clear(&sub->out);
            sub->sent = 0;
        }
    }
    return 0;
}

/* Reads what is there; without an answer for long it is broken. */
static int sub_read(struct rlock__node *node)
{
    struct rlock__server *server = &node->server;
    struct rlock__sub *sub = &node->sub;
    struct rlock__reply reply;
    int got = 0, n = rlock__conn_read(sub->conn);
    bool alive;

    if (n < 0) {
        return n;
    }
    rlock__enter(node->client);
    while (n > 0 && (got = rlock__conn_next(sub->conn, &reply)) > 0) {
        rlock__core_sub_reply(server, &reply, rlock__now_us());
    }
    alive = rlock__subscriber_check(server, rlock__now_us());
    rlock__leave(node->client);
    return got < 0 || alive ? got : RLOCK_ECONN;
}

/* A message counts only if it comes from the server that the commands go to. */
static bool sub_is_elsewhere(struct rlock__node *node)
{
    const struct rlock__io *io = node->ios;
    bool elsewhere = false;

    rlock__take_link(node->client);
    if (io->gen != 0) {
        const char *sub = rlock__conn_greeting(node->sub.conn)->run_id;
        const char *link = rlock__conn_greeting(io->conn)->run_id;

        elsewhere = strcmp(rlock__conn_peer(io->conn), rlock__conn_peer(node->sub.conn)) != 0 ||
                    (sub[0] != '\0' && link[0] != '\0' && strcmp(sub, link) != 0);
    }
    rlock__give_link(node->client);
    return elsewhere;
}

void rlock__serve_sub(struct rlock__node *node, int64_t now)
{
    struct rlock__sub *sub = &node->sub;
    bool due, begins, wants_pushes, is_ready = sub->is_ready;
    int code;

    sub->is_ready = false;
    rlock__enter(node->client);
    due = now >= rlock__subscriber_due(&node->server); /* to be made, or to be checked */
    begins = rlock__subscriber_begin(&node->server, now);
    wants_pushes = node->server.sub.asked_tracking;
    rlock__core_mutex_unlock(&node->client->mutex);
    rlock__conn_want_pushes(sub->conn, wants_pushes);
    code = begins ? rlock__conn_start(sub->conn, NULL, 0, now) : rlock__conn_step(sub->conn, now);
    if (code == 0 && !sub->up && rlock__conn_is_up(sub->conn)) {
        sub->up = true;
        rlock__enter(node->client);
        found_version(node, rlock__conn_greeting(sub->conn));
        node->server.sub.tracks = rlock__conn_greeting(sub->conn)->tracks;
        rlock__core_sub_up(&node->server, rlock__now_us());
        rlock__leave(node->client);
    }
    if (code == 0 && sub->up) {
        code = is_ready || due ? sub_read(node) : 0;
        code = code == 0 ? sub_flush(node) : code;
        code = code == 0 && sub_is_elsewhere(node) ? RLOCK_ECONN : code;
    }
    if (code < 0) {
        sub_failed(node);
    }
    rlock__drive(node->client);
}
