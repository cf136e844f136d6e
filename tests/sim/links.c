/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The clients' side of the network: each client's connections to each of its servers, what src/net
 * and src/drive do for real; and which server has which key, as far as the client knows.
 */
#include <stdio.h>
#include <stdlib.h>
#include <utlist.h>

#include "lock/server/channel.h"
#include "reply.h"
#include "topology/slot.h"
#include "world.h"

#define CONNECT_TIMEOUT (500 * RLOCK__MS)

static struct rlock__server *server_of(const struct sim_link *link)
{
    return &link->client->nodes[link->node];
}

struct rlock__link *sim_core_link(const struct sim_link *link)
{
    return &server_of(link)->links[link->index];
}

/* A replica is not connected to. */
static bool is_wanted(const struct sim_link *link)
{
    return link->is_sub || link->client->used[link->node];
}

void sim_link_plan(struct sim_link *link)
{
    const struct sim_client *client = link->client;
    int64_t due = link->is_sub ? rlock__subscriber_due(server_of(link))
                               : rlock__link_due(sim_core_link(link));

    if (link->state == SIM_DOWN && !is_wanted(link)) {
        due = RLOCK__NEVER;
    }
    if (link->state == SIM_DOWN || link->state == SIM_UP) {
        rlock__timer_set(&client->world->timers, &link->timer,
                         due == RLOCK__NEVER ? due : sim_world_time(client, due));
    }
}

void sim_link_break(struct sim_client *client, struct sim_link *link, const char *why)
{
    struct sim_world *world = client->world;
    enum sim_link_state state = link->state;

    if (link->conn != NULL) {
        sim_trace(world, "client %u: %s to node %u breaks: %s", client->index,
                  link->is_sub ? "sub" : "link", link->node, why);
        sim_conn_let_go(link->conn);
        link->conn = NULL;
    }
    link->state = SIM_DOWN;
    link->client_id = 0;
    client->disturbed = rlock__max(client->disturbed, world->now);
    if (why == NULL) {
        return;
    }
    if (link->is_sub) {
        rlock__core_sub_down(server_of(link), sim_clock(client));
    } else {
        rlock__core_link_down(sim_core_link(link), state == SIM_UP ? link->gen : 0, RLOCK_ECONN,
                              false, why, sim_clock(client));
    }
    sim_link_plan(link);
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

/* A client with may_kill unset fences no connection. Or it fences every other one, because the
 * server reports only the ids of those. */
static bool may_kill(const struct sim_client *client)
{
    return client->may_kill || client->index % 2 == 1;
}

static bool is_nameless(const struct sim_conn *conn)
{
    return !conn->client->may_kill && may_kill(conn->client) && conn->id % 2 == 0;
}

#define TRACK "*3\r\n$6\r\nCLIENT\r\n$8\r\nTRACKING\r\n$2\r\nON\r\n"

/* A client that may not listen may not track keys either; or, with an odd index, it may, but the
 * server refuses its looks. */
static bool may_track(const struct sim_link *link)
{
    const struct sim_client *client = link->client;

    return link->is_sub && server_of(link)->sub.asked_tracking &&
           (client->may_listen || client->index % 2 == 1);
}

static void begin_hello(struct sim_client *client, struct sim_link *link)
{
    struct sim_world *world = client->world;
    struct sim_conn *conn = calloc(1, sizeof(*conn));
    char command[80];

    conn->world = world;
    conn->client = client;
    conn->link = link;
    conn->node = link->node;
    conn->is_sub = link->is_sub;
    conn->open = true;
    conn->id = sim_server_connect(world->nodes[link->node].server);
    conn->server_life =
        world->config.failover_us != 0 ? 1 + world->nodes[link->node].life : world->server_life;
    conn->uptime_s = uptime_s(world);
    DL_APPEND(world->conns, conn);
    link->conn = conn;
    link->state = SIM_HELLO;
    link->fenced = true;
    link->answers_due = 1;
    link->spoke_at = sim_clock(client);
    sim_conn_say(conn, "*2\r\n$6\r\nCLIENT\r\n$2\r\nID\r\n", 24);
    if (may_track(link)) {
        sim_conn_say(conn, TRACK, strlen(TRACK));
        link->answers_due++;
    }
    for (size_t i = 0; i < link->n_unfenced && may_kill(client); i++) {
        char id[24];
        int n = snprintf(id, sizeof(id), "%llu", (unsigned long long)link->unfenced[i]);

        n = snprintf(command, sizeof(command),
                     "*4\r\n$6\r\nCLIENT\r\n$4\r\nKILL\r\n$2\r\nID\r\n$%d\r\n%s\r\n", n, id);
        sim_conn_say(conn, command, (size_t)n);
        link->answers_due++;
    }
    if (!may_kill(client) && link->n_unfenced != 0) {
        link->fenced = false;
    }
    rlock__timer_set(&world->timers, &link->timer, world->now + CONNECT_TIMEOUT);
}

static void begin_connect(struct sim_link *link)
{
    struct sim_client *client = link->client;
    struct sim_world *world = client->world;
    int64_t round_trip;

    if (!link->is_sub) {
        link->n_unfenced = rlock__link_begin(sim_core_link(link), link->unfenced);
    } else if (!rlock__subscriber_begin(server_of(link), sim_clock(client))) {
        return; /* nobody wants it any more */
    }
    link->state = SIM_CONNECTING;
    round_trip = 2 * sim_delay(client, world);
    if (round_trip > 2 * world->config.delay_max) {
        client->hampered = rlock__max(client->hampered, world->now + round_trip);
    }
    rlock__timer_set(&world->timers, &link->timer, world->now + round_trip);
}

static void on_link_timer(struct rlock__timer *timer, int64_t now)
{
    struct sim_link *link = RLOCK__OF(struct sim_link, timer, timer);
    struct sim_client *client = link->client;
    struct sim_world *world = client->world;

    (void)now;
    if (sim_is_paused(client)) {
        rlock__timer_set(&world->timers, timer, client->paused_until);
    } else if (link->state < SIM_HELLO && world->nodes[link->node].state == SIM_DEAD) {
        sim_link_break(client, link, "refused");
        sim_pump(client);
    } else if (link->state == SIM_DOWN && !is_wanted(link)) {
        return;
    } else if (link->state == SIM_GREETED) {
        sim_map_confirm(link);
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
    } else if (link->is_sub && !rlock__subscriber_check(server_of(link), sim_clock(client))) {
        sim_link_break(client, link, "silent");
        sim_pump(client);
    } else {
        sim_pump(client); /* that is tried */
    }
}

static void handshake_step(struct sim_client *client, struct sim_link *link)
{
    if (--link->answers_due != 0) {
        return;
    }
    rlock__timer_unset(&client->world->timers, &link->timer);
    if (link->is_sub) {
        link->state = SIM_UP;
        server_of(link)->sub.tracks = may_track(link);
        rlock__core_sub_up(server_of(link), sim_clock(client));
    } else if (client->world->config.failover_us != 0) {
        sim_map_confirm(link);
    } else {
        sim_link_up(link, 0);
    }
}

void sim_link_up(struct sim_link *link, int64_t alive_at)
{
    struct sim_client *client = link->client;
    char run_id[RLOCK__RUN_ID_SIZE] = "";
    const uint64_t client_id = is_nameless(link->conn) ? 0 : link->client_id;

    link->state = SIM_UP;
    sim_core_link(link)->pipeline.alive_at = alive_at;
    if (client->world->config.failover_us != 0) {
        (void)snprintf(run_id, sizeof(run_id), "%u", link->conn->server_life);
    } else if (link->conn->uptime_s != RLOCK__UNKNOWN) {
        (void)snprintf(run_id, sizeof(run_id), "%u", link->conn->server_life + 1);
    }
    rlock__core_found(server_of(link), run_id, link->conn->uptime_s, sim_clock(client));
    link->gen =
        rlock__core_link_up(sim_core_link(link), client_id, link->fenced, sim_clock(client));
    sim_trace(client->world, "client %u: link up, generation %llu%s", client->index,
              (unsigned long long)link->gen, link->fenced ? "" : ", not fenced");
}

void sim_link_hear(struct sim_conn *conn, const char *bytes, size_t len)
{
    struct sim_client *client = conn->client;
    struct sim_link *link = conn->link;
    struct rlock__value values[2 * RLOCK__BATCH + 8];
    struct sim_resp *tree = sim_resp_read(bytes, len);
    struct rlock__reply reply = sim_reply_of(tree, values);

    if (link->state == SIM_HELLO) {
        if (link->client_id == 0) {
            link->client_id = (uint64_t)reply.v[0].num;
        }
        handshake_step(client, link);
    } else if (conn->is_sub) {
        reply.is_push =
            rlock__bytes_equal(rlock__reply_str(&reply, 0), rlock__bytes_of("invalidate"));
        rlock__core_sub_reply(server_of(link), &reply, sim_clock(client));
    } else {
        rlock__core_reply(sim_core_link(link), link->gen, &reply, sim_clock(client));
    }
    (void)sim_resp_free(tree);
    sim_pump(client);
}

static void pump_link(struct sim_link *link)
{
    struct rlock__pipeline *pipeline = &sim_core_link(link)->pipeline;
    static struct rlock__buf out;

    if (pipeline->close && link->state == SIM_UP && link->gen == pipeline->gen) {
        pipeline->close = false;
        sim_link_break(link->client, link, "overdue");
    }
    if (link->state == SIM_UP && pipeline->up) {
        rlock__pipeline_take(pipeline, &out);
        rlock__pipeline_wrote(pipeline, out.len);
        sim_conn_say(link->conn, out.data, out.len);
        rlock__buf_clear(&out);
    }
}

static void pump_sub(struct sim_link *link)
{
    struct rlock__buf *out = &server_of(link)->sub.out;

    if (link->state == SIM_UP) {
        sim_conn_say(link->conn, out->data, out->len);
        rlock__buf_clear(out);
    }
    sim_link_plan(link);
}

static unsigned n_links(const struct sim_client *client)
{
    const struct sim_config *config = &client->world->config;

    return config->n_nodes * (config->n_links + config->n_acks);
}

void sim_wire_pump(struct sim_client *client)
{
    for (unsigned i = 0; i < n_links(client); i++) {
        pump_link(&client->links[i]);
    }
    for (unsigned i = 0; i < client->world->config.n_nodes; i++) {
        pump_sub(&client->subs[i]);
    }
}

struct sim_link *sim_any_link(struct sim_client *client, int64_t subs)
{
    struct sim_world *world = client->world;
    bool is_sub = subs != 0 && !sim_chance(world, 1000 - subs);
    unsigned n = is_sub ? world->config.n_nodes : n_links(client);
    unsigned i = n > 1 ? (unsigned)sim_random(world, n) : 0;

    return is_sub ? &client->subs[i] : &client->links[i];
}

/* ---- A client's servers ---- */

bool sim_hears(const struct sim_client *client, const struct rlock__call *call)
{
    const struct rlock__server *server =
        call->channel != NULL ? call->channel->server : call->link->server;
    bool is_up = client->subs[server - client->nodes].state == SIM_UP;

    if (call->channel != NULL && call->channel->is_tracked) { /* until a look is refused */
        return is_up && server->sub.tracks && !call->channel->is_deaf;
    }
    return is_up && client->may_listen;
}

void sim_wire_learn(struct sim_client *client)
{
    struct sim_world *world = client->world;

    memcpy(client->known, world->node_of, sizeof(client->known));
}

static struct rlock__server *route(struct rlock__core *core, const struct rlock__spec *spec)
{
    struct sim_client *client = RLOCK__OF(struct sim_client, core, core);
    unsigned i = 0;

    while (i < SIM_KEYS - 1 &&
           !rlock__bytes_equal(spec->key, rlock__bytes_of(client->world->keys[i]))) {
        i++;
    }
    return &client->nodes[client->known[i]];
}

static enum rlock__redirect redirect(struct rlock__core *core, const struct rlock__link *link,
                                     const struct rlock__reply *reply,
                                     struct rlock__server **ret_server)
{
    struct sim_client *client = RLOCK__OF(struct sim_client, core, core);
    struct rlock__bytes text = rlock__reply_str(reply, 0);
    unsigned slot, node;
    char line[64], word[8];

    (void)link;
    (void)snprintf(line, sizeof(line), "%.*s", (int)text.len, text.at);
    if (sscanf(line, "%7s %u n%u", word, &slot, &node) != 3 || node >= SIM_NODES) {
        return RLOCK__NO_REDIRECT;
    }
    *ret_server = &client->nodes[node];
    if (client->world->config.failover_us != 0) {
        sim_map_use(client, node);
    }
    if (strcmp(word, "ASK") == 0) {
        return RLOCK__ASK;
    }
    for (unsigned i = 0; i < SIM_KEYS; i++) {
        if (rlock__slot(rlock__bytes_of(client->world->keys[i])) == slot) {
            client->known[i] = node;
            client->learned[i] = true;
        }
    }
    core->moved_at = sim_clock(client);
    if (client->world->config.failover_us != 0) {
        sim_map_plan(client, 2 * client->world->config.delay_max);
    }
    return RLOCK__MOVED;
}

void sim_wire_core(struct sim_client *client, const char *address)
{
    const struct sim_config *config = &client->world->config;
    struct rlock__core *core = &client->core;
    bool is_sharded;

    core->opts.address = address;
    core->driver.route = route;
    core->driver.redirect = config->n_nodes > 1 ? redirect : NULL;
    core->several = config->n_nodes > 1;
    core->opts.failover_us = config->failover_us;
    core->opts.announces_both = config->both;
    core->opts.no_pass = config->no_pass;
    is_sharded = config->sharded && !(config->both && client->index == 0);
    memcpy(client->known, client->world->node_of, sizeof(client->known));
    rlock__core_init(core);
    for (unsigned i = 0; i < config->n_nodes; i++) {
        client->nodes[i].address = address;
        sim_node_name(i, client->node_ids[i]);
        client->nodes[i].id = client->node_ids[i];
        rlock__core_add_server(core, &client->nodes[i], config->n_links, config->n_acks);
        rlock__server_found_version(&client->nodes[i], is_sharded ? 7 : 6);
    }
    sim_map_start(client);
    sim_standby_client(client);
}

static void start(struct sim_link *link, struct sim_client *client, unsigned node, unsigned index)
{
    link->client = client;
    link->node = node;
    link->index = index;
    link->timer.fire = on_link_timer;
    if (!link->is_sub) {
        rlock__timer_set(&client->world->timers, &link->timer, client->world->now);
    }
}

void sim_wire_client(struct sim_client *client)
{
    unsigned each = client->world->config.n_links + client->world->config.n_acks;

    for (unsigned i = 0; i < n_links(client); i++) {
        start(&client->links[i], client, i / each, i % each);
    }
    for (unsigned i = 0; i < client->world->config.n_nodes; i++) {
        client->subs[i].is_sub = true;
        start(&client->subs[i], client, i, 0);
    }
}

static void end(struct sim_link *link)
{
    sim_link_break(link->client, link, NULL);
    rlock__timer_unset(&link->client->world->timers, &link->timer);
}

void sim_wire_end(struct sim_client *client)
{
    rlock__timer_unset(&client->world->timers, &client->hear);
    for (unsigned i = 0; i < n_links(client); i++) {
        end(&client->links[i]);
    }
    for (unsigned i = 0; i < client->world->config.n_nodes; i++) {
        end(&client->subs[i]);
    }
}
