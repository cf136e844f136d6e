/* SPDX-License-Identifier: Apache-2.0 */
/* The network, and each client's two connections: what src/net and src/drive do for real. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <utlist.h>

#include "reply.h"
#include "world.h"

#define TOLD "\r\nasking\r\n" /* what a script's last argument is then */
#define TRY_AGAIN "-TRYAGAIN Multiple keys request during rehashing of slot\r\n"
#define NOT_HELD "*2\r\n:-1" /* a script that finds this touches nothing that is missing */
#define ABORTED                                                                                    \
    "-ERR Script attempted to access a non local key in a cluster node " SIM_ABORTED "\r\n"

int64_t sim_delay(struct sim_client *client, struct sim_world *world)
{
    const struct sim_config *config = &world->config;
    int64_t us = config->delay_min + sim_random(world, config->delay_max - config->delay_min + 1);

    /* now and then something takes much longer */
    if (config->faults != 0 && !world->healed && sim_chance(world, 5)) {
        us += sim_random(world, RLOCK__SECOND);
        if (client != NULL) {
            client->hampered = rlock__max(client->hampered, world->now + us);
        }
    }
    return us;
}

/* Now and then a command arrives in the last millisecond of a lease: how long that takes; 0 not
 * this one. */
static int64_t until_a_lease_ends(struct sim_conn *conn)
{
    struct sim_world *world = conn->world;
    struct sim_key_info lock;
    const char *key;

    if (world->config.faults == 0 || world->healed || conn->is_sub || conn->client == NULL ||
        !sim_chance(world, 3)) {
        return 0;
    }
    key = world->keys[sim_random(world, world->config.n_keys)];
    if (!sim_find_key(world, (struct sim_view){key, strlen(key)}, &lock) || lock.pttl_ms <= 0 ||
        lock.pttl_ms > 2000) {
        return 0;
    }
    conn->client->hampered =
        rlock__max(conn->client->hampered, world->now + lock.pttl_ms * RLOCK__MS);
    return lock.pttl_ms * RLOCK__MS;
}

/* ---- Messages ---- */

static void message_free(struct sim_message *message)
{
    struct sim_conn *conn = message->conn;

    rlock__timer_unset(&conn->world->timers, &message->timer);
    DL_DELETE(conn->under_way, message);
    free(message);
}

static void conn_free(struct sim_conn *conn)
{
    struct sim_message *message, *after;

    DL_FOREACH_SAFE(conn->under_way, message, after) {
        message_free(message);
    }
    rlock__timer_unset(&conn->world->timers, &conn->end);
    DL_DELETE(conn->world->conns, conn);
    free(conn);
}

static void on_server_end(struct rlock__timer *timer, int64_t now)
{
    struct sim_conn *conn = RLOCK__OF(struct sim_conn, end, timer);

    (void)now;
    if (conn->world->nodes[conn->node].state == SIM_FROZEN) { /* what it has not read runs first */
        rlock__timer_set(&conn->world->timers, timer,
                         conn->world->nodes[conn->node].until + RLOCK__MS);
        return;
    }
    sim_server_disconnect(conn->world->nodes[conn->node].server, conn->id);
    conn_free(conn);
}

/* What a command or reply says, on one line. */
static void trace_frame(const struct sim_conn *conn, const char *what, const char *bytes,
                        size_t len)
{
    char line[400];
    size_t n = 0;

    if (!conn->world->trace) {
        return;
    }
    for (size_t i = 0; i < len && n < sizeof(line) - 1; i++) {
        if (bytes[i] == '\r' || bytes[i] == '\n') {
            line[n] = ' ';
            n += n > 0 && line[n - 1] != ' ';
        } else if (isprint((unsigned char)bytes[i])) {
            line[n++] = bytes[i];
        } else if (n + 3 < sizeof(line)) { /* a permit is binary */
            n += (size_t)snprintf(line + n, 4, "%%%02x", (unsigned char)bytes[i]);
        }
    }
    line[n] = '\0';
    sim_trace(conn->world, "  n%u conn %llu %s %s", conn->node, (unsigned long long)conn->id, what,
              line);
}

static bool is_script(const struct sim_message *message)
{
    return memmem(message->bytes, message->len < 20 ? message->len : 20, "EVAL", 4) != NULL;
}

/* What the server answers instead of running it; NULL it runs it. */
static const char *refusal(const struct sim_message *message)
{
    const struct sim_conn *conn = message->conn;
    const struct sim_world *world = conn->world;

    if (conn->is_sub) {
        bool subscribes = memmem(message->bytes, message->len, "SUBSCRIBE", 9) != NULL &&
                          memmem(message->bytes, message->len, "UNSUB", 5) == NULL;
        bool looks = memmem(message->bytes, message->len, "PTTL", 4) != NULL;

        return (subscribes || looks) && conn->client != NULL && !conn->client->may_listen
                   ? "-NOPERM this user has no permissions to access one of the channels\r\n"
                   : NULL;
    }
    return world->now < world->refuses_until && is_script(message) ? world->refusal : NULL;
}

static bool is_about(const struct sim_message *message, unsigned key)
{
    const char *name = message->conn->world->keys[key];

    return memmem(message->bytes, message->len, name, strlen(name)) != NULL;
}

static void note_asking(const struct sim_message *message)
{
    struct sim_world *world = message->conn->world;

    for (unsigned i = 0; i < world->config.n_keys; i++) {
        if (is_about(message, i) &&
            memmem(message->bytes, message->len, TOLD, strlen(TOLD)) != NULL) {
            world->asked_at[i] = world->now;
        }
    }
}

/* Whether a script in an open slot is stopped in the middle, where it has done all that matters. */
static bool is_aborted(const struct sim_message *message)
{
    struct sim_world *world = message->conn->world;

    for (unsigned i = 0; i < world->config.n_keys; i++) {
        if (world->now < world->open_until[i] && is_script(message) && is_about(message, i)) {
            return sim_chance(world, 100);
        }
    }
    return false;
}

static struct sim_message *post(struct sim_conn *conn, bool to_server, const char *bytes,
                                size_t len, bool is_end);

static bool is_paused(const struct sim_world *world, unsigned node)
{
    return world->now < world->server_paused_until &&
           (world->paused_node == SIM_NODES || world->paused_node == node);
}

/* Replicas are told of what a script wrote: if it wrote nothing they have what was there before. */
static void run(const struct sim_message *message)
{
    struct sim_conn *conn = message->conn;
    struct sim_node *node = &conn->world->nodes[conn->node];
    uint64_t before = sim_server_n_writes(node->server);

    conn->has_run = conn->has_run || is_script(message);
    (void)sim_server_command(node->server, conn->id, message->bytes, message->len);
    if (is_script(message) && sim_server_n_writes(node->server) != before) {
        conn->written = ++node->written;
    }
}

/* A silent connection loses the message. Its client notices that when the answer is overdue. */
static void swallow(struct sim_message *message)
{
    struct sim_client *client = message->conn->client;

    if (client != NULL) {
        client->hampered = rlock__max(client->hampered,
                                      message->conn->world->now + client->world->config.op_timeout);
    }
    message_free(message);
}

static void at_server(struct sim_message *message)
{
    struct sim_conn *conn = message->conn;
    struct sim_world *world = conn->world;

    if (world->nodes[conn->node].state == SIM_FROZEN) {
        rlock__timer_set(&world->timers, &message->timer, world->nodes[conn->node].until + 1);
        return;
    }
    if (is_paused(world, conn->node) || world->server_down) {
        rlock__timer_set(&world->timers, &message->timer,
                         rlock__max(world->server_paused_until, world->now + RLOCK__MS));
        return;
    }
    if (conn->mute) {
        swallow(message);
        return;
    }
    if (!message->is_end && refusal(message) != NULL) {
        trace_frame(conn, "is refused", message->bytes, message->len);
        sim_server_refuses(world->nodes[conn->node].server, conn->id);
        (void)post(conn, false, refusal(message), strlen(refusal(message)), false);
    } else if (!message->is_end) {
        trace_frame(conn, "runs", message->bytes, message->len);
        world->aborts = is_aborted(message);
        note_asking(message);
        if (memmem(message->bytes, message->len, "\nWAIT\r", 6) != NULL) {
            sim_replica_wait(conn, message->bytes, message->len);
            message_free(message);
            return;
        }
        if (sim_standby_answers(conn, message->bytes, message->len)) {
            message_free(message);
            return;
        }
        run(message);
        world->aborts = false;
        sim_failover_ran(world, conn->node);
        sim_check_server(world);
    }
    message_free(message);
}

/* Whether the client of a connection awaits nothing on it. */
static bool is_quiet(const struct sim_conn *conn)
{
    return conn->client != NULL && conn->link->state == SIM_UP &&
           rlock__pipeline_is_quiet(&sim_core_link(conn->link)->pipeline);
}

static void at_client(struct sim_message *message)
{
    struct sim_conn *conn = message->conn;
    struct sim_client *client = conn->client;

    if (client != NULL && conn->open && sim_is_paused(client)) {
        rlock__timer_set(&conn->world->timers, &message->timer, client->paused_until);
        return;
    }
    if (conn->mute) {
        swallow(message);
        return;
    }
    if (message->unasked && !is_quiet(conn)) {
        message_free(message);
        return;
    }
    if (client != NULL && conn->open && message->is_end) {
        sim_link_break(client, conn->link, "the server closed it");
        sim_pump(client);
        return; /* conn and message may be gone */
    }
    if (client != NULL && conn->open) {
        char *bytes = malloc(message->len);
        size_t len = message->len;

        memcpy(bytes, message->bytes, len);
        message_free(message);
        conn->is_demoted |= len > 9 && memcmp(bytes, "-READONLY", 9) == 0;
        sim_link_hear(conn, bytes, len);
        free(bytes);
        return;
    }
    message_free(message);
}

/* The eldest of its connection and direction. */
static struct sim_message *first_of(struct sim_message *message)
{
    struct sim_message *first;

    DL_FOREACH(message->conn->under_way, first) {
        if (first->to_server == message->to_server) {
            return first;
        }
    }
    return message;
}

static void on_arrival(struct rlock__timer *timer, int64_t now)
{
    struct sim_message *message = RLOCK__OF(struct sim_message, timer, timer);

    struct sim_message *head = first_of(message);

    (void)now;
    if (head != message) { /* delays must not reorder: the eldest arrives now, this one when that
                              would have */
        rlock__timer_set(&message->conn->world->timers, timer, rlock__max(head->timer.at, now));
        rlock__timer_unset(&message->conn->world->timers, &head->timer);
        message = head;
    }
    if (message->to_server) {
        at_server(message);
    } else {
        at_client(message);
    }
}

static struct sim_message *post(struct sim_conn *conn, bool to_server, const char *bytes,
                                size_t len, bool is_end)
{
    struct sim_world *world = conn->world;
    int64_t *last = to_server ? &conn->last_up : &conn->last_down;
    struct sim_message *message = calloc(1, sizeof(*message) + len);

    *last = rlock__max(*last, world->now + sim_delay(conn->client, world));
    if (to_server) {
        *last = rlock__max(*last, world->now + until_a_lease_ends(conn));
    }
    if (conn->client != NULL) {
        *last = rlock__max(*last, conn->client->cut_until[to_server ? 0 : 1]);
    }
    if (conn->client != NULL && conn->node == conn->client->cut_node) {
        *last = rlock__max(*last, conn->client->cut_node_until);
    }
    message->timer.fire = on_arrival;
    message->conn = conn;
    message->to_server = to_server;
    message->is_end = is_end;
    message->len = len;
    if (len != 0) {
        memcpy(message->bytes, bytes, len);
    }
    DL_APPEND(conn->under_way, message);
    rlock__timer_set(&world->timers, &message->timer, *last);
    return message;
}

/* A script that is told of ASKING goes right behind it, as does what goes to another server than
 * the map named from the beginning. */
static void check_asking(struct sim_conn *conn, const char *bytes, size_t len)
{
    struct sim_world *world = conn->world;
    bool asks = conn->asks;

    conn->asks = memmem(bytes, len, "\nASKING\r", 8) != NULL;
    for (unsigned i = 0; i < world->config.n_keys && world->config.n_nodes > 1; i++) {
        bool told = memmem(bytes, len, TOLD, strlen(TOLD)) != NULL;
        bool elsewhere = !conn->client->learned[i] && conn->node != conn->client->known[i] &&
                         memmem(bytes, len, "EVAL", 4) != NULL;

        if (!asks && (told || elsewhere) &&
            memmem(bytes, len, world->keys[i], strlen(world->keys[i])) != NULL) {
            sim_violate(world, "client %u: sends %s where it was sent, and not behind ASKING",
                        conn->client->index, world->keys[i]);
        }
    }
}

void sim_conn_say(struct sim_conn *conn, const char *bytes, size_t len)
{
    /* what goes out whole behind a NOSCRIPT was asked before */
    if (conn->is_demoted && len != 0 && memmem(bytes, len, "\nEVALSHA\r", 9) != NULL) {
        sim_violate(conn->world, "client %u: asks a replica again, over the same link",
                    conn->client->index);
    }
    while (len != 0) {
        int64_t n = sim_resp_frame_len(bytes, len);

        if (n <= 0) {
            sim_violate(conn->world, "the core sends what is not RESP");
            return;
        }
        check_asking(conn, bytes, (size_t)n);
        (void)post(conn, true, bytes, (size_t)n, false);
        bytes += n;
        len -= (size_t)n;
    }
}

/* ---- The server's side ---- */

static struct sim_conn *find_conn(const struct sim_node *node, uint64_t id)
{
    struct sim_conn *conn;

    DL_FOREACH(node->world->conns, conn) {
        if (conn->id == id && conn->node == node->index) {
            return conn;
        }
    }
    return NULL;
}

/* Now and then what is between them does not say what the server said: once the greeting is over,
 * since nothing would tell a wrong client id. */
static bool is_lied_to(const struct sim_conn *conn)
{
    struct sim_world *world = conn->world;

    return !conn->is_sub && conn->client != NULL && conn->link->conn == conn &&
           conn->link->state == SIM_UP && world->config.faults != 0 && !world->healed &&
           sim_chance(world, 2);
}

void sim_conn_answer(struct sim_conn *conn, const char *bytes)
{
    (void)post(conn, false, bytes, strlen(bytes), false);
}

/* What no script answers, near as it is to a grant. */
static void answer_nonsense(struct sim_conn *conn)
{
    static const char *const nonsense[] = {
        ":1\r\n",
        "+OK\r\n",
        "$1\r\n1\r\n",
        "*0\r\n",
        "*1\r\n$1\r\n1\r\n",
        "*1\r\n*1\r\n:1\r\n",
        "*2\r\n:1\r\n+OK\r\n",
    };
    const char *bytes = nonsense[sim_random(conn->world, 7)];

    sim_trace(conn->world, "  conn %llu is lied to", (unsigned long long)conn->id);
    (void)post(conn, false, bytes, strlen(bytes), false);
}

static void on_frame(void *payload, uint64_t id, const char *bytes, size_t len, bool is_push)
{
    const struct sim_node *node = payload;
    struct sim_world *world = node->world;
    struct sim_conn *conn = find_conn(node, id);
    bool is_message = is_push && len > 18 &&
                      (memcmp(bytes, "*3\r\n$7\r\nmessage", 15) == 0 ||
                       memcmp(bytes, "*2\r\n$10\r\ninvalidate", 19) == 0);

    if (conn == NULL ||
        (is_message && !world->healed && sim_chance(world, world->config.drop_messages * 10))) {
        return;
    }
    if (world->config.n_nodes == 1 && len > 5 && memcmp(bytes, "-ASK ", 5) == 0) {
        bytes = TRY_AGAIN;
        len = strlen(TRY_AGAIN);
    }
    if (world->aborts && !is_push && bytes[0] != '-' &&
        strncmp(bytes, NOT_HELD, strlen(NOT_HELD)) != 0) {
        bytes = ABORTED;
        len = strlen(ABORTED);
    }
    trace_frame(conn, "answers", bytes, len);
    if (is_lied_to(conn)) {
        answer_nonsense(conn);
        return;
    }
    (void)post(conn, false, bytes, len, false);
    if (is_message && world->config.faults != 0 && sim_chance(world, 50)) {
        (void)post(conn, false, bytes, len, false);
    } else if (is_lied_to(conn)) {
        post(conn, false, bytes, len, false)->unasked = true;
    }
}

static void on_close(void *payload, uint64_t id)
{
    const struct sim_node *node = payload;
    struct sim_conn *conn = find_conn(node, id);
    struct sim_message *message, *after;

    if (conn == NULL) {
        return;
    }
    DL_FOREACH_SAFE(conn->under_way, message, after) {
        if (message->to_server) { /* unread input dies with the connection */
            message->is_end = true;
        }
    }
    post(conn, false, NULL, 0, true);
}

/* The nodes of a cluster tell each other what is published. */
static void on_publish(void *payload, struct sim_view channel, struct sim_view message)
{
    const struct sim_node *node = payload;
    const struct sim_world *world = node->world;

    for (unsigned i = 0; i < sim_n_nodes(world); i++) {
        if (i != node->index) {
            sim_server_deliver(world->nodes[i].server, channel, message);
        }
    }
}

void sim_wire_server(struct sim_world *world)
{
    world->nodes[0].server = world->server;
    for (unsigned i = 0; i < sim_n_nodes(world); i++) {
        struct sim_node *node = &world->nodes[i];

        node->world = world;
        node->index = i;
        sim_server_set_events(node->server, &(struct sim_events){.on_frame = on_frame,
                                                                 .on_close = on_close,
                                                                 .on_publish = on_publish,
                                                                 .payload = node});
    }
}

void sim_conns_fini(struct sim_world *world)
{
    while (world->conns != NULL) {
        conn_free(world->conns);
    }
}

void sim_conn_let_go(struct sim_conn *conn)
{
    struct sim_world *world = conn->world;
    struct sim_message *message, *after;
    bool late = world->config.faults != 0 && sim_chance(world, 500);
    int64_t more = late ? sim_random(world, 2 * world->config.lease) : 0;

    conn->open = false;
    conn->client = NULL;
    DL_FOREACH_SAFE(conn->under_way, message, after) {
        if (!message->to_server || (!late && sim_chance(world, 300))) {
            message_free(message);
        } else {
            rlock__timer_set(&world->timers, &message->timer,
                             rlock__max(message->timer.at, world->now) + more);
        }
    }
    conn->end.fire = on_server_end;
    rlock__timer_set(&world->timers, &conn->end, rlock__max(conn->last_up, world->now) + more + 1);
}
