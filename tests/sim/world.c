/* SPDX-License-Identifier: Apache-2.0 */
#include "world.h"
#include "lock/latch.h"

#include "permits.h"

#include "rw/rw.h"
#include "topology/slot.h"

#include <stdio.h>
#include <stdlib.h>
#include <utlist.h>

/* ---- Clients ---- */

static void on_tick(struct rlock__timer *timer, int64_t now)
{
    struct sim_client *client = RLOCK__OF(struct sim_client, tick, timer);

    (void)now;
    if (sim_is_paused(client)) {
        rlock__timer_set(&client->world->timers, timer, client->paused_until);
        return;
    }
    rlock__core_tick(&client->core, sim_clock(client));
    sim_pump(client);
}

static void on_unref(struct rlock__core *core)
{
    (void)core; /* the world owns the client */
}

static void make_specs(struct sim_client *client)
{
    struct sim_world *world = client->world;
    struct rlock__tuning tuning = {.fair_slot_ms = world->config.slot_ms,
                                   .no_reentry = world->config.no_reentry,
                                   .prefer_writers = world->config.prefer_writers,
                                   .units = world->config.units};

    if (world->config.other == NULL && sim_chance(world, 100)) {
        tuning.max_hold_us = world->config.lease / 2 + sim_random(world, 3 * world->config.lease);
    }
    if ((world->config.kind->caps & RLOCK__CAP_PASSES) != 0 &&
        (world->seed % 8 == 5 || world->seed % 8 == 2)) {
        tuning.linger_us = (1 + (int64_t)(world->seed / 8 % 10)) * RLOCK__MS;
    }
    for (unsigned i = 0; i < world->config.n_keys; i++) {
        struct rlock__bytes name = rlock__bytes_of(world->keys[i]);

        client->specs[0][i] = rlock__spec_new(&client->core, world->config.kind, name, &tuning);
        if (world->config.other != NULL) {
            client->specs[1][i] =
                rlock__spec_new(&client->core, world->config.other, name, &tuning);
        }
    }
}

/* Whether its UUID says that it is of another library. For spin locks the seed itself decides, so
 * that other seeds do as they would without. */
static bool is_peer(struct sim_world *world, unsigned index)
{
    if (world->only.queues != 0) {
        return world->seed % 3 == 0 && index % 3 == 2;
    }
    if (world->config.kind == &rlock__spin_ops) {
        return world->seed % 4 == 1 && index % 2 == 1;
    }
    return world->config.some_are_peers && sim_chance(world, 400);
}

struct sim_client *sim_client_new(struct sim_world *world, unsigned index)
{
    struct sim_client *client = calloc(1, sizeof(*client));
    static const char *const address = "simulated";
    static const int acks[] = {RLOCK_ACKS_AUTO, RLOCK_ACKS_ALL, 1};

    client->world = world;
    client->index = index;
    client->alive = true;
    client->may_kill = world->config.faults == 0 || !sim_chance(world, 150);
    client->may_listen = world->config.faults == 0 || !sim_chance(world, 50);
    client->ppm = world->config.drift ? sim_random(world, 8001) - 4000 : 0;
    client->offset = 1 + sim_random(world, RLOCK__SECOND);
    client->tick.fire = on_tick;
    (void)snprintf(client->core.opts.uuid, sizeof(client->core.opts.uuid),
                   "00000000-0000-%c000-8000-%04u%08llx", is_peer(world, index) ? '4' : '8',
                   index % 10000, (unsigned long long)sim_random(world, 0xffffffff));
    (void)snprintf(client->core.opts.text_uuid, sizeof(client->core.opts.text_uuid), "%s",
                   client->core.opts.uuid);
    client->core.opts.text_uuid[SIM_TEXT_AT] = SIM_TEXT_DIGIT;
    client->core.opts.serial = index + 1;
    client->core.random = (uint64_t)sim_random(world, INT64_MAX) | 1;
    client->core.opts.renewed_lease_us = world->config.lease;
    client->core.opts.op_timeout_us = world->config.op_timeout;
    client->core.opts.acks =
        world->config.n_acks == 0 ? RLOCK_ACKS_OFF : acks[world->seed / 16 % 3];
    client->core.opts.prefix = rlock__bytes("", 0);
    client->core.driver.unref = on_unref;
    client->core.opts.queues = world->only.queues != 0 && client->core.opts.uuid[14] == '8';
    client->core.opts.log_level = world->trace ? RLOCK_LOG_DEBUG : 0;
    client->core.opts.logs_all = true;
    client->core.opts.slice = sim_chance(world, 500) ? 1 + (size_t)sim_random(world, 3) : 0;
    sim_wire_core(client, address);
    make_specs(client);
    world->clients[index] = client;
    sim_wire_client(client);
    sim_users_start(client);
    return client;
}

static void client_free(struct sim_client *client)
{
    struct rlock__timers *timers = &client->world->timers;

    rlock__timer_unset(timers, &client->round);
    for (unsigned i = 0; i < client->n_users; i++) {
        for (unsigned side = 0; side < SIM_SIDES; side++) {
            struct sim_hold *hold = &client->users[i].holds[side];

            hold->view = rlock__view_unref(hold->view);
        }
        rlock__timer_unset(timers, &client->users[i].act);
        rlock__timer_unset(timers, &client->users[i].second.act);
        if (client->users[i].calling && client->users[i].call.request != NULL) {
            client->users[i].call.request->subject = NULL;
        }
    }
    rlock__timer_unset(timers, &client->tick);
    sim_wire_end(client);
    rlock__core_abandon(&client->core);
    rlock__core_fini(&client->core);
    for (unsigned i = 0; i < SIM_SIDES * SIM_KEYS; i++) {
        (void)rlock__spec_unref(client->specs[i / SIM_KEYS][i % SIM_KEYS]);
    }
    client->world->clients[client->index] = NULL;
    free(client);
}

void sim_client_kill(struct sim_client *client)
{
    sim_trace(client->world, "client %u dies", client->index);
    client_free(client);
}

static void finish_call(struct sim_user *user, const struct rlock__call *call)
{
    if (call == &user->second.call) {
        sim_second_done(user);
    } else {
        sim_user_done(user);
    }
}

void sim_pump(struct sim_client *client)
{
    struct rlock__core *core = &client->core;

    while (core->done != NULL || core->lost != NULL) {
        struct rlock__call *call = core->done;
        struct rlock__loss *loss = core->lost;

        if (loss != NULL) { /* first: a loss is known before the call that met it returns */
            DL_DELETE(core->lost, loss);
            sim_user_lost(client, loss);
            (void)rlock__loss_free(loss);
            continue;
        }
        DL_DELETE(core->done, call);
        finish_call((struct sim_user *)call->payload, call);
    }
    while (core->notes != NULL) {
        struct rlock__note *note = core->notes;

        DL_DELETE(core->notes, note);
        sim_trace(client->world, "client %u notes: %s", client->index, note->text);
        free(note);
    }
    for (unsigned i = 0; i < client->world->config.n_nodes; i++) {
        for (unsigned k = 0; k < client->nodes[i].n_links; k++) {
            client->slowest = rlock__max(client->slowest, client->nodes[i].links[k].pipeline.rtt);
        }
    }
    sim_wire_pump(client);
    rlock__timer_set(&client->world->timers, &client->tick,
                     rlock__core_next(core) == RLOCK__NEVER
                         ? RLOCK__NEVER
                         : sim_world_time(client, rlock__core_next(core)));
}

/* ---- A run ---- */

/* How holds are passed on: in some worlds users give up soon what they have, and want it again. */
static void configure_passing(struct sim_world *world)
{
    struct sim_config *config = &world->config;

    config->no_pass = world->seed % 10 == 9;
    config->hasty = (config->kind->caps & RLOCK__CAP_PASSES) != 0 && world->seed % 4 == 2;
    if (config->hasty) {
        config->n_keys = 1;
        config->n_users = SIM_MAX_USERS;
        config->delay_max = config->delay_min + RLOCK__MS;
        config->lease = world->seed % 16 == 2 ? 60 * RLOCK__SECOND : config->lease;
    }
}

/* Processes of one or two threads that all want one lock for a short time: a release grants it to
 * the next of them. */
static void configure_fleet(struct sim_world *world)
{
    struct sim_config *config = &world->config;

    if (world->only.queues != 0 && world->seed % 4 == 1 && config->other == NULL) {
        config->n_keys = 1;
        config->n_users = 1 + world->seed / 4 % 2;
        config->n_clients = (unsigned)rlock__max(config->n_clients, 3);
        config->delay_max = config->delay_min + RLOCK__MS;
        config->lease = rlock__max(config->lease, 3 * RLOCK__SECOND);
        config->hasty = config->is_fleet = true;
    }
}

/* Servers that are replaced, each by a replica of its own. */
static void configure_failovers(struct sim_world *world)
{
    struct sim_config *config = &world->config;

    if (config->faults != 0 && (world->only.failovers || world->seed % 32 == 15)) {
        config->n_nodes = 4 + world->seed / 32 % 2;
        config->n_primaries = config->n_nodes - 2;
        config->failover_us = sim_chance(world, 700) ? 250 * RLOCK__MS : RLOCK__SECOND;
        config->n_clients = (unsigned)rlock__min(config->n_clients, 3);
        config->n_acks = world->only.acks || world->seed / 64 % 2 == 1 ? SIM_ACK_LINKS : 0;
        config->opens_slots = false;
    }
}

/* The kinds that are not in the table are tried alone: other seeds do as they would without. */
static void choose_kind(struct sim_world *world)
{
    struct sim_config *config = &world->config;
    const char *only = world->only.kind;
    static const struct rlock_ops *const kinds[] = {
        &rlock__reentrant_ops, &rlock__reentrant_ops, &rlock__nonreentrant_ops,
        &rlock__spin_ops,      &rlock__fenced_ops,    &rlock__fair_ops,
        &rlock__fair_ops,      &rlock__read_ops,      &rlock__read_ops};

    config->kind = kinds[sim_random(world, sizeof(kinds) / sizeof(kinds[0]))];
    for (size_t i = 0; only != NULL && i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        config->kind = strcmp(kinds[i]->kind, only) == 0 ? kinds[i] : config->kind;
    }
    if (only != NULL && strcmp(only, rlock__setnx_ops.kind) == 0) {
        config->kind = &rlock__setnx_ops;
    } else if (only != NULL && strcmp(only, rlock__latch_ops.kind) == 0) {
        config->kind = &rlock__latch_ops;
    } else if (only != NULL && (strcmp(only, rlock__permits_ops.kind) == 0 ||
                                strcmp(only, rlock__semaphore_ops.kind) == 0)) {
        config->kind = strcmp(only, rlock__permits_ops.kind) == 0 ? &rlock__permits_ops
                                                                  : &rlock__semaphore_ops;
        config->units = 1 + (int64_t)(world->seed % 4);
    }
}

static void configure(struct sim_world *world)
{
    struct sim_config *config = &world->config;
    static const int64_t leases[] = {300, 1000, 3000, 10000};
    static const int64_t delays[] = {1, 5, 40};

    choose_kind(world);
    config->other = config->kind == &rlock__read_ops ? &rlock__write_ops : NULL;
    config->prefer_writers = config->other != NULL && sim_chance(world, 400);
    config->n_clients = 2 + (unsigned)sim_random(world, SIM_MAX_CLIENTS - 1);
    config->n_users = 1 + (unsigned)sim_random(world, SIM_MAX_USERS);
    config->n_keys = 1 + (unsigned)sim_random(world, SIM_KEYS);
    config->delay_min = 20;
    config->delay_max = config->delay_min + delays[sim_random(world, 3)] * RLOCK__MS;
    config->lease = leases[sim_random(world, 4)] * RLOCK__MS;
    config->op_timeout = (200 + sim_random(world, 800)) * RLOCK__MS;
    config->faults = sim_chance(world, 250) ? 0 : 1 + (unsigned)sim_random(world, 40);
    config->faults = world->only.faults != 0 ? world->only.faults : config->faults;
    config->drop_messages =
        config->faults != 0 && sim_chance(world, 500) ? (unsigned)sim_random(world, 101) : 0;
    config->drift = config->faults != 0;
    config->slot_ms = sim_chance(world, 300) ? 3000 : 300000;
    config->no_reentry = config->kind == &rlock__fair_ops && sim_chance(world, 200);
    config->some_are_peers = config->kind == &rlock__fair_ops && sim_chance(world, 300);
    /* by the seed itself, so that others are as they would be without */
    config->n_nodes = config->faults != 0 && world->seed % 8 == 3 ? 2 + world->seed / 8 % 2 : 1;
    config->n_nodes =
        config->faults != 0 && world->only.nodes != 0 ? world->only.nodes : config->n_nodes;
    config->sharded = config->n_nodes > 1 && world->seed % 3 != 0;
    config->both = config->sharded && world->seed % 5 < 2;
    configure_passing(world);
    configure_fleet(world);
    config->seconds = config->faults != 0 && world->seed % 6 == 4;
    config->opens_slots =
        config->n_nodes == 1 && config->faults != 0 && (world->only.slots || world->seed % 8 == 1);
    config->n_acks =
        config->n_nodes == 1 && config->faults != 0 && (world->only.acks || world->seed % 16 == 7)
            ? SIM_ACK_LINKS
            : 0;
    configure_failovers(world);
    config->moves_slots =
        config->n_nodes > 1 && (config->failover_us == 0 || world->seed / 128 % 2 == 1);
    config->n_links =
        world->only.links || world->seed % 8 == 5 || world->seed % 16 == 3 ? SIM_NODE_LINKS : 1;
    for (unsigned i = 0; i < SIM_KEYS; i++) {
        (void)snprintf(world->keys[i], sizeof(world->keys[i]), "lock-%u", i);
        world->node_of[i] = i % (config->failover_us != 0 ? config->n_primaries : config->n_nodes);
    }
}

static void step(struct sim_world *world)
{
    struct rlock__timer *timer = world->timers.root;

    world->now = rlock__max(world->now, timer->at);
    sim_set_time(world);
    rlock__timer_unset(&world->timers, timer);
    timer->fire(timer, world->now);
    world->steps++;
    sim_check_step(world);
    if (world->seed % 2 == 0) { /* what is kept for the next call is freed: who uses it, errs */
        for (unsigned i = 0; i < world->config.n_clients; i++) {
            rlock__core_trim(&world->clients[i]->core);
        }
    }
}

static bool all_settled(const struct sim_world *world)
{
    const struct sim_conn *conn;

    for (unsigned i = 0; i < world->config.n_clients; i++) {
        const struct sim_client *client = world->clients[i];

        if (client != NULL && (!rlock__core_is_settled(&client->core) ||
                               client->core.calls != NULL || client->epoch != world->epoch)) {
            return false;
        }
    }
    if (world->failover.is_on) {
        return false;
    }
    DL_FOREACH(world->conns, conn) { /* a release whose lease ended is forgotten, and runs yet */
        if (conn->under_way != NULL && conn->client != NULL) {
            return false;
        }
    }
    return true;
}

/* No more faults; every client closes; what is left is counted. */
static void finish(struct sim_world *world)
{
    int64_t limit, arrived;

    sim_heal(world);
    for (unsigned i = 0; i < world->config.n_clients; i++) {
        struct sim_client *client = world->clients[i];

        client->closed = true;
        rlock__core_close(&client->core, sim_clock(client));
        sim_pump(client);
    }
    limit = world->now + 10 * RLOCK__SECOND + 2 * world->config.lease;
    while (world->violation[0] == '\0' && !all_settled(world) && world->timers.root != NULL &&
           world->timers.root->at < limit) {
        step(world);
    }
    arrived =
        world->now + 4 * world->config.delay_max; /* what is under way, and what that begins */
    limit = arrived + 10 * RLOCK__SECOND;         /* a new run of a server is asked for more */
    while (world->violation[0] == '\0' && world->timers.root != NULL &&
           world->timers.root->at < (all_settled(world) ? arrived : limit)) {
        step(world);
    }
    if (world->violation[0] == '\0') {
        sim_check_end(world);
    }
}

static void clear(struct sim_world *world)
{
    struct sim_dead *dead, *after;

    for (unsigned i = 0; i < SIM_MAX_CLIENTS; i++) {
        if (world->clients[i] != NULL) {
            client_free(world->clients[i]);
        }
    }
    sim_conns_fini(world);
    rlock__timer_unset(&world->timers, &world->restart);
    rlock__timer_unset(&world->timers, &world->slot);
    rlock__timer_unset(&world->timers, &world->move.timer);
    rlock__timer_unset(&world->timers, &world->failover.timer);
    rlock__timer_unset(&world->timers, &world->standby.timer);
    HASH_ITER(hh, world->dead, dead, after) {
        HASH_DEL(world->dead, dead);
        free(dead);
    }
}

bool sim_run(struct sim_world *world, uint64_t seed, uint64_t steps)
{
    struct sim_server *server = world->server != NULL ? world->server : sim_server_new(seed);
    struct sim_node nodes[SIM_NODES];

    memcpy(nodes, world->nodes, sizeof(nodes));
    *world = (struct sim_world){.seed = seed,
                                .random = seed,
                                .server = server,
                                .trace = world->trace,
                                .only = world->only,
                                .replica = world->replica,
                                .server_life = 1};
    memcpy(world->nodes, nodes, sizeof(nodes));
    world->nodes[0].server = server;
    configure(world);
    for (unsigned i = 0; i < sim_n_nodes(world); i++) {
        struct sim_node *node = &world->nodes[i];

        node->server = node->server != NULL ? node->server : sim_server_new(seed);
        sim_server_reset(node->server, seed + i);
        sim_server_want_keys(node->server, true);
        sim_server_set_dialect(node->server, seed % 3 == 0 ? SIM_REDIS_6 : SIM_REDIS_7);
    }
    if (world->config.opens_slots) {
        sim_server_join(server, SIM_SELF, "here");
        sim_server_join(server, SIM_OTHER, "there");
        sim_server_assign(server, 0, RLOCK__SLOTS - 1, 1);
    }
    sim_failovers_start(world);
    sim_nodes_start(world);
    sim_replica_start(world, seed);
    sim_wire_server(world);
    for (unsigned i = 0; i < world->config.n_clients; i++) {
        (void)sim_client_new(world, i);
    }
    sim_foreign_start(world);
    sim_peer_start(world);
    sim_latch_start();
    steps *= world->config.failover_us != 0 ? 3 : 1; /* most of the time nothing is answered */
    while (world->steps < steps && world->violation[0] == '\0') {
        sim_foreign_step(world);
        sim_peer_step(world);
        if (world->config.faults != 0 && sim_chance(world, world->config.faults)) {
            sim_fault(world);
        }
        step(world);
    }
    if (world->violation[0] == '\0') {
        finish(world);
    }
    clear(world);
    return world->violation[0] == '\0';
}
