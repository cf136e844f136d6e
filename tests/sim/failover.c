/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Primaries that die or stop, and the replicas that are promoted in their places: no earlier than
 * the failover time, with all that the primary had, or without the latest. A primary that stopped
 * goes on as if nothing had happened: what lies in its sockets it answers as a primary, and grants
 * what it is asked for. Only then it finds that it is the other one's replica.
 *
 * What a failover may take is what its replica did not have: with acknowledgements none that a
 * client counts on.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "permits.h"
#include "topology/slot.h"
#include "world.h"

#define STALE (3 * RLOCK__MS)     /* so long one that goes on takes to find itself replaced */
#define CONFIRM (150 * RLOCK__MS) /* of a new link, and what it begins with */

static struct sim_server *server_at(const struct sim_world *world, unsigned node)
{
    return world->nodes[node].server;
}

/* Says at one node, or all (SIM_NODES), who has the keys now. */
static void tell(struct sim_world *world, unsigned at)
{
    unsigned n = sim_n_nodes(world);

    for (unsigned i = 0; i < n; i++) {
        for (unsigned key = 0; key < SIM_KEYS && (at == i || at == SIM_NODES); key++) {
            unsigned slot = rlock__slot(rlock__bytes_of(world->keys[key]));
            bool knows = world->nodes[i].state == SIM_SERVES || at == i;
            bool moves = world->move.timer.set && world->move.key == key && at != i;

            if (knows && !moves) { /* itself is its first */
                sim_server_assign(server_at(world, i), slot, slot,
                                  1 + (world->node_of[key] + n - i) % n);
            }
        }
    }
}

static void disturb_all(struct sim_world *world, int64_t until)
{
    for (unsigned i = 0; i < world->config.n_clients; i++) {
        struct sim_client *client = world->clients[i];

        client->disturbed = rlock__max(client->disturbed, until);
    }
}

/* ---- What is lost ---- */

struct before {
    long count;
    int64_t left_ms;
};

/* Its grant, a renewal or a level is not there. */
static void note_lost(struct sim_user *user, unsigned side, struct before was)
{
    struct sim_hold *hold = &user->holds[side];
    int64_t until = sim_valid_until(hold);
    long count = sim_server_count(user, side);

    if (hold->depth != 0 && count != 0 && count != (long)hold->depth) {
        hold->half = true; /* a level that was given up: no replica acknowledges that */
    }
    if (hold->depth != 0 && hold->doomed) { /* it may be there again */
        hold->doomed_valid = RLOCK__NEVER;
        return;
    }
    if (hold->depth == 0 || sim_is_acked(user->client)) {
        return; /* what is acknowledged is there: else it is seen to be missing */
    }
    if (count == 0) {
        hold->doomed = true;
        hold->gone = was.count != 0; /* else it had ended: a reader's name outlives its level */
        hold->doomed_valid = until;
    } else if (count != was.count || sim_server_left(user, side) < was.left_ms) {
        hold->doomed = true;
        hold->doomed_valid = RLOCK__NEVER;
    }
}

/* What had been released may be there again, until its lease ends: no replica acknowledges that. */
static void forgive(struct sim_world *world, unsigned node)
{
    struct sim_dead *dead, *after;

    HASH_ITER(hh, world->dead, dead, after) {
        for (unsigned key = 0; key < world->config.n_keys; key++) {
            struct sim_view name = {world->keys[key], strlen(world->keys[key])}, value;

            int64_t left_ms;

            if (world->node_of[key] == node &&
                (world->config.units != 0
                     ? sim_permits_of(world, key, dead->owner, &left_ms) != 0
                     : sim_find_field(world, name,
                                      (struct sim_view){dead->owner, strlen(dead->owner)},
                                      &value))) {
                HASH_DEL(world->dead, dead);
                free(dead);
                break;
            }
        }
    }
}

/* A token of a grant that was lost may come again. */
static void look_at_token(struct sim_world *world, unsigned key)
{
    char token[64];
    struct sim_key_info info = {.n_items = 0};
    int64_t told = (int64_t)world->last_token[key]; /* what it has may not have been told yet */

    (void)snprintf(token, sizeof(token), "redisson_lock_token:{%s}", world->keys[key]);
    if (world->config.n_acks != 0) {
        return;
    }
    if (sim_find_key(world, (struct sim_view){token, strlen(token)}, &info)) {
        char digits[24];
        struct sim_view value = sim_key_item(&info, 0).value;

        (void)snprintf(digits, sizeof(digits), "%.*s", (int)value.len, value.data);
        told = rlock__min(told, strtoll(digits, NULL, 10));
    } else {
        told = 0;
    }
    world->last_token[key] = (uint64_t)told;
}

/* Its queue is another one: nobody has jumped it, and who stands there may have come when there
 * were others. */
static void forget_queue(struct sim_world *world, unsigned key)
{
    struct sim_queue *queue = &world->queues[key];
    bool is_meddled = queue->meddled;

    queue->meddled = true;
    sim_check_queue(world, key);
    queue->most_peers = SIM_QUEUE;
    queue->meddled = is_meddled || (world->was_meddled[key] && !queue->agrees);
}

static void promote(struct sim_world *world)
{
    struct sim_failover *failover = &world->failover;
    unsigned n = world->config.n_clients * SIM_MAX_USERS;
    struct before before[SIM_MAX_CLIENTS * SIM_MAX_USERS][SIM_SIDES];
    struct sim_node *from = &world->nodes[failover->from], *to = &world->nodes[failover->to];

    for (unsigned i = 0; i < n * SIM_SIDES; i++) {
        struct sim_user *user =
            &world->clients[i / SIM_SIDES / SIM_MAX_USERS]->users[i / SIM_SIDES % SIM_MAX_USERS];

        before[i / SIM_SIDES][i % SIM_SIDES] =
            user->client != NULL ? (struct before){sim_server_count(user, i % SIM_SIDES),
                                                   sim_server_left(user, i % SIM_SIDES)}
                                 : (struct before){0};
    }
    failover->is_promoted = true;
    from->is_replica = true;
    to->is_replica = false;
    /* a command that was lost before two failovers may run after both: nobody promises more */
    to->not_before = world->now + 2 * world->config.lease + RLOCK__SECOND;
    from->replica = to->replica = SIM_NODES;
    for (unsigned key = 0; key < SIM_KEYS; key++) {
        if (world->node_of[key] == failover->from) {
            world->node_of[key] = failover->to;
            world->restored_until[key] = world->now + 2 * world->config.lease;
            look_at_token(world, key);
            forget_queue(world, key);
        }
    }
    tell(world, SIM_NODES);
    sim_trace(world, "node %u is promoted in place of node %u", failover->to, failover->from);
    forgive(world, failover->to);
    for (unsigned i = 0; i < n * SIM_SIDES; i++) {
        struct sim_user *user =
            &world->clients[i / SIM_SIDES / SIM_MAX_USERS]->users[i / SIM_SIDES % SIM_MAX_USERS];

        if (user->client != NULL && world->node_of[user->key] == failover->to) {
            note_lost(user, i % SIM_SIDES, before[i / SIM_SIDES][i % SIM_SIDES]);
        }
    }
    sim_map_spread(world);
    sim_check_server(world);
}

/* ---- One after the other ---- */

/* It is the other one's replica from now on. */
static void demote(struct sim_world *world)
{
    struct sim_failover *failover = &world->failover;
    struct sim_node *node = &world->nodes[failover->from];

    node->state = SIM_SERVES;
    tell(world, failover->from);
    world->nodes[failover->to].replica = failover->from;
    sim_server_replicate(server_at(world, failover->to), node->server);
    world->nodes[failover->to].replicated = world->nodes[failover->to].written;
    failover->is_on = false;
    sim_trace(world, "node %u is the replica of node %u", failover->from, failover->to);
    sim_map_spread(world);
}

/* It goes on in its place: alive, or empty. */
static void go_on(struct sim_world *world)
{
    struct sim_failover *failover = &world->failover;
    struct sim_node *node = &world->nodes[failover->from];

    node->state = SIM_SERVES;
    failover->is_on = false;
    sim_trace(world, "node %u goes on%s", failover->from, failover->is_empty ? ", empty" : "");
}

static void on_failover(struct rlock__timer *timer, int64_t now)
{
    struct sim_world *world = RLOCK__OF(struct sim_world, failover.timer, timer);
    struct sim_failover *failover = &world->failover;
    struct sim_node *node = &world->nodes[failover->from];

    if (failover->returns && now >= failover->returns_at) {
        go_on(world);
        return;
    }
    if (!failover->returns && !failover->is_promoted) {
        promote(world);
        if (world->healed) {
            failover->returns_at = rlock__min(failover->returns_at, now + RLOCK__MS);
            node->until = node->state == SIM_FROZEN ? failover->returns_at : node->until;
        }
        rlock__timer_set(&world->timers, timer, failover->returns_at);
        return;
    }
    if (node->state == SIM_FROZEN) {
        node->state = SIM_STALE;
        sim_trace(world, "node %u goes on as if it were a primary", failover->from);
        rlock__timer_set(&world->timers, timer, now + STALE);
        return;
    }
    demote(world);
}

/* What it had is gone, and it is the primary still. */
static void lose_all(struct sim_world *world)
{
    unsigned from = world->failover.from;

    sim_server_restart(server_at(world, from), false);
    sim_server_replicate(server_at(world, from), server_at(world, world->failover.to));
    for (unsigned key = 0; key < SIM_KEYS; key++) {
        if (world->node_of[key] == from) {
            sim_doom(world, (int)key);
            memset(&world->queues[key], 0, sizeof(world->queues[key]));
            world->last_token[key] = 0;
        }
    }
}

void sim_fail_over(struct sim_world *world)
{
    struct sim_failover *failover = &world->failover;
    unsigned from = world->node_of[sim_random(world, world->config.n_keys)];
    struct sim_node *node = &world->nodes[from];
    int64_t silence = world->config.failover_us + world->config.failover_us / 50;
    bool dies = sim_chance(world, 400);

    if (failover->is_on || node->replica == SIM_NODES || world->healed ||
        world->now < node->not_before || sim_moves_from_or_to(world, from)) {
        return;
    }
    world->struck_at = world->now;
    *failover = (struct sim_failover){.is_on = true,
                                      .from = from,
                                      .to = node->replica,
                                      .returns = sim_chance(world, 200),
                                      .timer = {.fire = on_failover}};
    failover->promotes_at = world->now + silence + sim_random(world, world->config.failover_us);
    failover->returns_at = failover->returns
                               ? world->now + 1 + sim_random(world, silence)
                               : failover->promotes_at + 1 + sim_random(world, world->config.lease);
    if (!failover->returns && sim_chance(world, 300)) { /* as soon as that may be */
        failover->promotes_at = world->now + silence + 1;
        failover->returns_at = failover->promotes_at + 1 + sim_random(world, 20 * RLOCK__MS);
    }
    if (sim_chance(world, 300)) {
        sim_replica_catch_up(world, from);
    }
    node->state = dies ? SIM_DEAD : SIM_FROZEN;
    node->until = failover->returns_at;
    sim_trace(world, "node %u %s", from, dies ? "dies" : "stops");
    disturb_all(world, rlock__max(failover->promotes_at, failover->returns_at) + RLOCK__SECOND);
    if (dies) {
        failover->is_empty = failover->returns;
        node->life++;
        sim_server_restart(node->server, true); /* nobody is served what it still has */
    }
    if (failover->is_empty) {
        lose_all(world);
    }
    rlock__timer_set(&world->timers, &failover->timer,
                     failover->returns ? failover->returns_at : failover->promotes_at);
}

void sim_failover_ran(struct sim_world *world, unsigned node)
{
    if (world->config.failover_us != 0 && !world->nodes[node].is_replica &&
        sim_chance(world, 600)) {
        sim_replica_catch_up(world, node);
    }
}

void sim_move_replicates(struct sim_world *world, unsigned node)
{
    if (world->config.failover_us != 0 && world->nodes[node].replica != SIM_NODES) {
        sim_server_replicate(server_at(world, node), sim_replica_of(world, node));
    }
}

void sim_replicas_catch_up(struct sim_world *world)
{
    for (unsigned i = 0; i < world->config.n_nodes; i++) {
        sim_move_replicates(world, i);
    }
}

void sim_failovers_start(struct sim_world *world)
{
    const struct sim_config *config = &world->config;

    for (unsigned i = 0; i < SIM_NODES; i++) {
        struct sim_node *node = &world->nodes[i];

        node->state = SIM_SERVES;
        node->written = node->replicated = node->life = 0;
        node->not_before = 0;
        node->is_replica = config->failover_us != 0 && i >= config->n_primaries;
        node->replica = config->failover_us != 0 && i + config->n_primaries < config->n_nodes
                            ? i + config->n_primaries
                            : SIM_NODES;
    }
}

/* ---- Checks ---- */

/* A hold that a failover took is known to be lost once the client has heard of the failover, has a
 * link to the new primary and asked there: nothing of that waits for a third of the lease. */
void sim_check_verified(struct sim_user *user, unsigned side)
{
    struct sim_hold *hold = &user->holds[side];
    const struct sim_client *client = user->client;
    const struct sim_world *world = client->world;
    int64_t due = client->heard_at + CONFIRM + 12 * world->config.delay_max + 50 * RLOCK__MS;

    if (hold->depth == 0 || !hold->gone || hold->lost || client->epoch != world->epoch ||
        world->struck_at >= client->heard_at || client->struck_at >= client->heard_at ||
        sim_is_paused(client) || client->closed || world->now <= due ||
        world->server_paused_until >= client->heard_at || client->hampered > client->heard_at ||
        client->cut_node_until >= client->heard_at /* it cannot ask there */ || user->calling ||
        sim_valid_until(hold) == 0) {
        return;
    }
    sim_violate(client->world, "client %u: a failover took %s, and nobody is told", client->index,
                world->keys[user->key]);
}
