/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The replica of a world whose clients want their writes acknowledged: what it has of its primary's
 * keys, and what WAIT says of that. It catches up at once or lags, and a WAIT may come back
 * without it. Whatever may be promoted has what counts: a hold that its client believes valid is on
 * the replica too, at any time.
 *
 * What follows a WAIT on its connection is run before the answer is out. A real server waits with
 * that, and nobody sees the difference: the answers come in order.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "world.h"

#define LAG_MOST (4 * RLOCK__SECOND)

#define UNBLOCKED                                                                                  \
    "-UNBLOCKED force unblock from blocking operation, instance state changed (master -> "         \
    "replica?)\r\n"

void sim_replica_start(struct sim_world *world, uint64_t seed)
{
    if (world->config.n_acks == 0 || world->config.failover_us != 0) {
        return;
    }
    if (world->replica == NULL) {
        world->replica = sim_server_new(seed);
    }
    sim_server_reset(world->replica, seed);
}

static bool lags(struct sim_world *world)
{
    return world->now < world->lags_until || world->server_down;
}

struct sim_server *sim_replica_of(const struct sim_world *world, unsigned node)
{
    if (world->config.failover_us != 0) {
        unsigned replica = world->nodes[node].replica;

        return replica != SIM_NODES ? world->nodes[replica].server : NULL;
    }
    return world->config.n_acks != 0 ? world->replica : NULL;
}

void sim_replica_catch_up(struct sim_world *world, unsigned node)
{
    struct sim_server *replica = sim_replica_of(world, node);

    if (replica != NULL && !lags(world)) {
        sim_server_replicate(world->nodes[node].server, replica);
        world->nodes[node].replicated = world->nodes[node].written;
    }
}

/* What is to be acknowledged takes longer than it should. */
static void hamper(struct sim_world *world, int64_t until)
{
    for (unsigned i = 0; i < world->config.n_clients; i++) {
        world->clients[i]->hampered = rlock__max(world->clients[i]->hampered, until);
    }
}

void sim_replica_lags_until(struct sim_world *world, int64_t until)
{
    if (world->now >= world->lags_until) {
        world->lags_since = world->now;
    }
    if (world->config.failover_us != 0) { /* clients leave out a replica that lags for longer */
        until = rlock__min(until, world->lags_since + LAG_MOST);
    }
    world->lags_until = rlock__max(world->lags_until, until);
    hamper(world, world->lags_until);
}

void sim_replica_lags(struct sim_world *world)
{
    if (world->config.n_acks != 0 || world->config.failover_us != 0) {
        sim_replica_lags_until(world, world->now + sim_random(world, 2 * world->config.lease));
        sim_trace(world, "the replica lags until %.3f", (double)world->lags_until / 1000);
    }
}

void sim_replica_leaves(struct sim_client *client)
{
    if (client->world->config.n_acks != 0 && client->world->config.failover_us == 0 &&
        !sim_is_paused(client) &&
        client->core.opts.acks != 1 /* asked for, whatever the map says */) {
        client->is_lax = true;
        client->knows_replica = !client->knows_replica;
        sim_trace(client->world, "client %u: %u replicas", client->index, client->knows_replica);
        sim_standby_round(client);
    }
}

/* Whether somebody has the primary be a replica while it waits, and back. */
static bool is_unblocked(const struct sim_world *world)
{
    return world->config.failover_us == 0 && world->seed / 16 % 2 == 0;
}

void sim_replica_wait(struct sim_conn *conn, const char *bytes, size_t len)
{
    struct sim_world *world = conn->world;
    char text[64];
    int n = 0, needed = 0, ms = 0, others = sim_standby_other_is_quick(world);
    bool good;

    (void)snprintf(text, sizeof(text), "%.*s", (int)len, bytes);
    good = sscanf(text, "*3 $4 WAIT $%d %d $%d %d", &n, &needed, &n, &ms) == 4;
    if (!good || needed < 0 || ms < 1) {
        sim_violate(world, "the core sends a WAIT that makes no sense");
        return;
    }
    if (conn->is_round && needed > 1 + others && conn->client != NULL &&
        sim_standby_counts(conn->client) && world->config.failover_us == 0 &&
        world->standby.state == SIM_LINKED &&
        world->seed / 256 % 2 == 0 /* it hears most Sentinels */) {
        sim_violate(world, "the core waits for more replicas than it needs");
        return;
    }
    conn->has_run = conn->is_round = false;
    if (world->nodes[conn->node].state == SIM_STALE) { /* it goes on, and finds itself replaced */
        sim_conn_answer(conn, UNBLOCKED);
        return;
    }
    good = sim_replica_of(world, conn->node) != NULL &&
           conn->written <= world->nodes[conn->node].replicated; /* of what others wrote it says
                                                                   nothing */
    if (!good && sim_replica_of(world, conn->node) != NULL && !lags(world) &&
        !sim_chance(world, 50)) {
        sim_replica_catch_up(world, conn->node);
        good = true;
    }
    if (good + others < needed) {
        conn->last_down = rlock__max(conn->last_down, world->now + ms * RLOCK__MS);
        hamper(world, conn->last_down);
    }
    (void)snprintf(text, sizeof(text), ":%d\r\n", good + others);
    sim_conn_answer(conn, good + others < needed && is_unblocked(world) ? UNBLOCKED : text);
}

/* Whether what the client believes of its map's replicas is not what there is, or was not when the
 * latest lease began. */
static bool is_lax(const struct sim_client *client)
{
    const struct sim_world *world = client->world;

    return client->is_lax || world->now < client->omits_until ||
           (client->core.opts.acks == 1 && sim_standby_has_twin(world)) ||
           (world->config.failover_us != 0 && world->epoch != 0 &&
            (client->epoch != world->epoch ||
             world->now < client->heard_at + 2 * world->config.lease));
}

static bool has(struct sim_user *user, unsigned side)
{
    const struct sim_hold *hold = &user->holds[side];
    struct sim_world *world = user->client->world;
    struct sim_view key = {world->keys[user->key], strlen(world->keys[user->key])};
    unsigned node = sim_holder_of(world, key);
    struct sim_server *primary = node != SIM_NODES ? world->nodes[node].server : NULL;
    bool there;

    if (primary == NULL || world->config.n_acks == 0 || is_lax(user->client) || hold->depth == 0 ||
        hold->doomed || sim_replica_of(world, node) == NULL ||
        sim_valid_until(hold) <= sim_clock(user->client)) {
        return true;
    }
    world->nodes[node].server = sim_replica_of(world, node);
    there = sim_server_count(user, side) != 0;
    world->nodes[node].server = primary;
    return there;
}

void sim_replica_check(struct sim_user *user, unsigned side)
{
    struct sim_world *world = user->client->world;

    if (!has(user, side)) {
        sim_violate(world,
                    "client %u user %llu: believes to hold %s for %lld us more, the replica "
                    "disagrees",
                    user->client->index, (unsigned long long)user->owner.id, world->keys[user->key],
                    (long long)(sim_valid_until(&user->holds[side]) - sim_clock(user->client)));
    }
}

bool sim_is_acked(const struct sim_client *client)
{
    return client->world->config.n_acks != 0 && !is_lax(client);
}
