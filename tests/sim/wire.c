/* SPDX-License-Identifier: Apache-2.0 */
/* The network, and each client's two connections: what src/net and src/drive do for real. */
#include <stdio.h>
#include <stdlib.h>
#include <utlist.h>

#include "reply.h"
#include "world.h"

#define CONNECT_TIMEOUT (500 * RLOCK__MS)

static int64_t delay(struct sim_client *client, struct sim_world *world)
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
    if (!sim_server_find_key(world->server, (struct sim_view){key, strlen(key)}, &lock) ||
        lock.pttl_ms <= 0 || lock.pttl_ms > 2000) {
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
    struct sim_conn *conn =
        (struct sim_conn *)(void *)((char *)timer - offsetof(struct sim_conn, end));

    (void)now;
    sim_server_disconnect(conn->world->server, conn->id);
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
        } else {
            line[n++] = bytes[i];
        }
    }
    line[n] = '\0';
    sim_trace(conn->world, "  conn %llu %s %s", (unsigned long long)conn->id, what, line);
}

/* What the server answers instead of running it; NULL it runs it. */
static const char *refusal(const struct sim_message *message)
{
    const struct sim_conn *conn = message->conn;
    const struct sim_world *world = conn->world;

    if (conn->is_sub) {
        bool subscribes = memmem(message->bytes, message->len, "\nSUBSCRIBE", 10) != NULL;

        return subscribes && conn->client != NULL && !conn->client->may_listen
                   ? "-NOPERM this user has no permissions to access one of the channels\r\n"
                   : NULL;
    }
    return world->now < world->refuses_until &&
                   memmem(message->bytes, message->len < 20 ? message->len : 20, "EVAL", 4) != NULL
               ? world->refusal
               : NULL;
}

static struct sim_message *post(struct sim_conn *conn, bool to_server, const char *bytes,
                                size_t len, bool is_end);

static void at_server(struct sim_message *message)
{
    struct sim_conn *conn = message->conn;
    struct sim_world *world = conn->world;

    if (world->now < world->server_paused_until || world->server_down) {
        rlock__timer_set(&world->timers, &message->timer,
                         rlock__max(world->server_paused_until, world->now + RLOCK__MS));
        return;
    }
    if (conn->mute) {
        message_free(message);
        return;
    }
    if (!message->is_end && refusal(message) != NULL) {
        trace_frame(conn, "is refused", message->bytes, message->len);
        (void)post(conn, false, refusal(message), strlen(refusal(message)), false);
    } else if (!message->is_end) {
        trace_frame(conn, "runs", message->bytes, message->len);
        (void)sim_server_command(world->server, conn->id, message->bytes, message->len);
        sim_check_server(world);
    }
    message_free(message);
}

static void hear(struct sim_conn *conn, const char *bytes, size_t len);

/* Whether the client of a connection awaits nothing on it. */
static bool is_quiet(const struct sim_conn *conn)
{
    return conn->client != NULL && conn->client->link.state == SIM_UP &&
           rlock__pipeline_is_quiet(&alone_link(&conn->client->core)->pipeline);
}

static void at_client(struct sim_message *message)
{
    struct sim_conn *conn = message->conn;
    struct sim_client *client = conn->client;

    if (client != NULL && conn->open && sim_is_paused(client)) {
        rlock__timer_set(&conn->world->timers, &message->timer, client->paused_until);
        return;
    }
    if (conn->mute || (message->unasked && !is_quiet(conn))) {
        message_free(message);
        return;
    }
    if (client != NULL && conn->open && message->is_end) {
        sim_link_break(client, conn->is_sub ? &client->sub : &client->link, "the server closed it");
        sim_pump(client);
        return; /* conn and message may be gone */
    }
    if (client != NULL && conn->open) {
        char *bytes = malloc(message->len);
        size_t len = message->len;

        memcpy(bytes, message->bytes, len);
        message_free(message);
        hear(conn, bytes, len);
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
    struct sim_message *message =
        (struct sim_message *)(void *)((char *)timer - offsetof(struct sim_message, timer));

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

    *last = rlock__max(*last, world->now + delay(conn->client, world));
    if (to_server) {
        *last = rlock__max(*last, world->now + until_a_lease_ends(conn));
    }
    if (conn->client != NULL) {
        *last = rlock__max(*last, conn->client->cut_until[to_server ? 0 : 1]);
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

static void say(struct sim_conn *conn, const char *bytes, size_t len)
{
    while (len != 0) {
        int64_t n = sim_resp_frame_len(bytes, len);

        if (n <= 0) {
            sim_violate(conn->world, "the core sends what is not RESP");
            return;
        }
        (void)post(conn, true, bytes, (size_t)n, false);
        bytes += n;
        len -= (size_t)n;
    }
}

/* ---- The server's side ---- */

static struct sim_conn *find_conn(struct sim_world *world, uint64_t id)
{
    struct sim_conn *conn;

    DL_FOREACH(world->conns, conn) {
        if (conn->id == id) {
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

    return !conn->is_sub && conn->client != NULL && conn->client->link.conn == conn &&
           conn->client->link.state == SIM_UP && world->config.faults != 0 && !world->healed &&
           sim_chance(world, 2);
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
    struct sim_world *world = payload;
    struct sim_conn *conn = find_conn(world, id);
    bool is_message = is_push && len > 12 && memcmp(bytes, "*3\r\n$7\r\nmessage", 15) == 0;

    if (conn == NULL ||
        (is_message && !world->healed && sim_chance(world, world->config.drop_messages * 10))) {
        return;
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
    struct sim_world *world = payload;
    struct sim_conn *conn = find_conn(world, id);
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

void sim_wire_server(struct sim_world *world)
{
    struct sim_events events = {.on_frame = on_frame, .on_close = on_close, .payload = world};

    sim_server_set_events(world->server, &events);
}

void sim_conns_fini(struct sim_world *world)
{
    while (world->conns != NULL) {
        conn_free(world->conns);
    }
}

/* ---- The clients' side ---- */

/* What is under way may still run: some time passes until the server has read it all and sees the
 * end. */
static void let_go(struct sim_conn *conn)
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

/* When its connection is to be made, or checked, as the core says. */
static void plan(struct sim_link *link)
{
    const struct sim_client *client = link->client;
    const struct rlock__server *server = client->core.servers;
    int64_t due =
        link == &client->sub ? rlock__subscriber_due(server) : rlock__link_due(&server->links[0]);

    if (link->state == SIM_DOWN || link->state == SIM_UP) {
        rlock__timer_set(&client->world->timers, &link->timer,
                         due == RLOCK__NEVER ? due : sim_world_time(client, due));
    }
}

void sim_link_break(struct sim_client *client, struct sim_link *link, const char *why)
{
    struct sim_world *world = client->world;
    enum sim_link_state state = link->state;
    bool is_sub = link == &client->sub;

    if (link->conn != NULL) {
        sim_trace(world, "client %u: %s breaks: %s", client->index, is_sub ? "sub" : "link", why);
        let_go(link->conn);
        link->conn = NULL;
    }
    link->state = SIM_DOWN;
    link->client_id = 0;
    client->disturbed = rlock__max(client->disturbed, world->now);
    if (why == NULL) {
        return;
    }
    if (is_sub) {
        rlock__core_sub_down(client->core.servers, sim_clock(client));
    } else {
        rlock__core_link_down(alone_link(&client->core), state == SIM_UP ? link->gen : 0,
                              RLOCK_ECONN, false, why, sim_clock(client));
    }
    plan(link);
}

static void handshake_step(struct sim_client *client, struct sim_link *link);

/* As servers count it: the seconds of two times, each cut off. */
static int64_t uptime_s(const struct sim_world *world)
{
    int64_t clock = sim_server_clock_us(world->server) - SIM_EPOCH_US;

    if (world->server_started == 0 || world->server_down) { /* it answers once it is up */
        return world->server_started == 0 ? RLOCK__UNKNOWN : 0;
    }
    return clock / RLOCK__SECOND - world->server_started / RLOCK__SECOND;
}

static void begin_hello(struct sim_client *client, struct sim_link *link)
{
    struct sim_world *world = client->world;
    struct sim_conn *conn = calloc(1, sizeof(*conn));
    char command[80];

    conn->world = world;
    conn->client = client;
    conn->is_sub = link == &client->sub;
    conn->open = true;
    conn->id = sim_server_connect(world->server);
    conn->server_life = world->server_life;
    conn->uptime_s = uptime_s(world);
    DL_APPEND(world->conns, conn);
    link->conn = conn;
    link->state = SIM_HELLO;
    link->fenced = true;
    link->answers_due = 1;
    say(conn, "*2\r\n$6\r\nCLIENT\r\n$2\r\nID\r\n", 24);
    for (size_t i = 0; i < link->n_unfenced && client->may_kill; i++) {
        char id[24];
        int n = snprintf(id, sizeof(id), "%llu", (unsigned long long)link->unfenced[i]);

        n = snprintf(command, sizeof(command),
                     "*4\r\n$6\r\nCLIENT\r\n$4\r\nKILL\r\n$2\r\nID\r\n$%d\r\n%s\r\n", n, id);
        say(conn, command, (size_t)n);
        link->answers_due++;
    }
    if (!client->may_kill && link->n_unfenced != 0) {
        link->fenced = false;
    }
    rlock__timer_set(&world->timers, &link->timer, world->now + CONNECT_TIMEOUT);
}

static void begin_connect(struct sim_link *link)
{
    struct sim_client *client = link->client;
    struct rlock__server *server = client->core.servers;

    if (link == &client->link) {
        link->n_unfenced = rlock__link_begin(&server->links[0], link->unfenced);
    } else if (!rlock__subscriber_begin(server, sim_clock(client))) {
        return; /* nobody wants it any more */
    }
    link->state = SIM_CONNECTING;
    rlock__timer_set(&client->world->timers, &link->timer,
                     client->world->now + 2 * delay(client, client->world));
}

static void on_link_timer(struct rlock__timer *timer, int64_t now)
{
    struct sim_link *link =
        (struct sim_link *)(void *)((char *)timer - offsetof(struct sim_link, timer));
    struct sim_client *client = link->client;
    struct sim_world *world = client->world;

    (void)now;
    if (sim_is_paused(client)) {
        rlock__timer_set(&world->timers, timer, client->paused_until);
    } else if (link->state == SIM_DOWN && world->server_down) {
        sim_link_break(client, link, "refused");
        sim_pump(client);
    } else if (link->state == SIM_DOWN) {
        begin_connect(link);
    } else if (link->state == SIM_CONNECTING) {
        begin_hello(client, link);
    } else if (link->state == SIM_HELLO) {
        sim_link_break(client, link, "no answer to the greeting");
        sim_pump(client);
    } else if (!rlock__subscriber_check(client->core.servers, sim_clock(client))) {
        sim_link_break(client, link, "silent");
        sim_pump(client);
    } else {
        sim_pump(client); /* that is tried */
    }
}

static void handshake_step(struct sim_client *client, struct sim_link *link)
{
    char run_id[RLOCK__RUN_ID_SIZE] = "";

    if (--link->answers_due != 0) {
        return;
    }
    rlock__timer_unset(&client->world->timers, &link->timer);
    link->state = SIM_UP;
    if (link == &client->sub) {
        rlock__core_sub_up(client->core.servers, sim_clock(client));
        return;
    }
    if (link->conn->uptime_s != RLOCK__UNKNOWN) {
        (void)snprintf(run_id, sizeof(run_id), "%u", link->conn->server_life + 1);
    }
    rlock__core_found(client->core.servers, run_id, link->conn->uptime_s, sim_clock(client));
    link->gen = rlock__core_link_up(alone_link(&client->core), link->client_id, link->fenced,
                                    sim_clock(client));
    sim_trace(client->world, "client %u: link up, generation %llu%s", client->index,
              (unsigned long long)link->gen, link->fenced ? "" : ", not fenced");
}

static void hear(struct sim_conn *conn, const char *bytes, size_t len)
{
    struct sim_client *client = conn->client;
    struct sim_link *link = conn->is_sub ? &client->sub : &client->link;
    struct rlock__value values[2 * RLOCK__BATCH + 8];
    struct sim_resp *tree = sim_resp_read(bytes, len);
    struct rlock__reply reply = sim_reply_of(tree, values);

    if (link->state == SIM_HELLO) {
        if (link->client_id == 0) {
            link->client_id = (uint64_t)reply.v[0].num;
        }
        handshake_step(client, link);
    } else if (conn->is_sub) {
        rlock__core_sub_reply(client->core.servers, &reply, sim_clock(client));
    } else {
        rlock__core_reply(alone_link(&client->core), link->gen, &reply, sim_clock(client));
    }
    (void)sim_resp_free(tree);
    sim_pump(client);
}

void sim_wire_pump(struct sim_client *client)
{
    struct rlock__server *server = client->core.servers;

    if (server->links[0].pipeline.close && client->link.state == SIM_UP &&
        client->link.gen == server->links[0].pipeline.gen) {
        server->links[0].pipeline.close = false;
        sim_link_break(client, &client->link, "overdue");
    }
    if (client->link.state == SIM_UP && server->links[0].pipeline.up) {
        static struct rlock__buf out;

        rlock__pipeline_take(&server->links[0].pipeline, &out);
        rlock__pipeline_wrote(&server->links[0].pipeline, out.len);
        say(client->link.conn, out.data, out.len);
        rlock__buf_clear(&out);
    }
    if (client->sub.state == SIM_UP) {
        say(client->sub.conn, server->sub.out.data, server->sub.out.len);
        rlock__buf_clear(&server->sub.out);
    }
    plan(&client->sub);
}

void sim_wire_client(struct sim_client *client)
{
    client->link.client = client->sub.client = client;
    client->link.timer.fire = client->sub.timer.fire = on_link_timer;
    rlock__timer_set(&client->world->timers, &client->link.timer, client->world->now);
}
