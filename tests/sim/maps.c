/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a client knows of servers that are replaced: which of them are primaries, and which has each
 * key. It asks for that now and then, hears it from a server that is none any more, and asks for it
 * before it uses a new link. What src/drive does for real.
 */
#include <stdio.h>
#include <string.h>

#include "world.h"

#define CONFIRM (100 * RLOCK__MS) /* a map confirms a link that was greeted so long before */

static void learn(struct sim_client *client)
{
    const struct sim_world *world = client->world;

    client->epoch = world->epoch;
    client->heard_at = world->now;
    memcpy(client->known, world->node_of, sizeof(client->known));
    for (unsigned i = 0; i < SIM_KEYS; i++) {
        client->learned[i] = client->learned[i] || world->epoch != 0;
    }
    for (unsigned i = 0; i < world->config.n_nodes; i++) {
        sim_standby_know(client, i,
                         world->config.n_acks != 0 && world->nodes[i].replica != SIM_NODES);
    }
}

void sim_map_use(struct sim_client *client, unsigned node)
{
    bool was_used = client->used[node];

    client->used[node] = true;
    for (unsigned i = 0; i < client->nodes[node].n_links && !was_used; i++) {
        sim_link_plan(&client->links[node * client->nodes[node].n_links + i]);
    }
}

/* Another one is the primary. */
static void replace(struct sim_client *client, unsigned node)
{
    client->used[node] = false;
    rlock__core_replaced(&client->nodes[node], sim_clock(client));
    rlock__replicas_reset(&client->nodes[node].replicas);
    for (unsigned i = 0; i < client->nodes[node].n_links; i++) {
        struct sim_link *link = &client->links[node * client->nodes[node].n_links + i];

        if (link->state != SIM_UP && link->state != SIM_DOWN) {
            sim_link_break(client, link, "another server has taken its place");
        }
    }
}

void sim_map_hear(struct sim_client *client)
{
    struct sim_world *world = client->world;

    if (client->epoch == world->epoch) {
        return;
    }
    sim_trace(world, "client %u: learns map %u", client->index, world->epoch);
    learn(client);
    for (unsigned i = 0; i < world->config.n_nodes; i++) {
        if (!world->nodes[i].is_replica) {
            sim_map_use(client, i);
        } else if (client->used[i]) {
            replace(client, i);
        }
    }
    rlock__core_rerouted(&client->core, sim_clock(client));
    sim_pump(client);
}

static void on_hear(struct rlock__timer *timer, int64_t now)
{
    struct sim_client *client = RLOCK__OF(struct sim_client, hear, timer);

    (void)now;
    if (sim_is_paused(client)) {
        rlock__timer_set(&client->world->timers, timer, client->paused_until);
    } else {
        sim_map_hear(client);
    }
}

void sim_map_plan(struct sim_client *client, int64_t pause)
{
    struct sim_world *world = client->world;

    if (!client->hear.set || client->hear.at > world->now + pause) {
        rlock__timer_set(&world->timers, &client->hear, world->now + pause);
    }
}

void sim_map_spread(struct sim_world *world)
{
    int64_t most;

    if (world->config.failover_us == 0) { /* they hear it from the servers alone */
        return;
    }
    most = sim_chance(world, 700) ? 100 * RLOCK__MS : 2 * RLOCK__SECOND;

    world->epoch++;
    for (unsigned i = 0; i < world->config.n_clients; i++) {
        struct sim_client *client = world->clients[i];
        int64_t pause = sim_random(world, most);

        sim_map_plan(client, pause);
        client->disturbed = rlock__max(client->disturbed, world->now + pause + RLOCK__SECOND);
    }
}

void sim_map_start(struct sim_client *client)
{
    const struct sim_world *world = client->world;

    client->hear.fire = on_hear;
    client->cut_node = SIM_NODES;
    for (unsigned i = 0; i < SIM_NODES; i++) {
        client->used[i] = !world->nodes[i].is_replica;
    }
    if (world->config.failover_us != 0) {
        learn(client);
    }
}

void sim_map_confirm(struct sim_link *link)
{
    struct sim_client *client = link->client;
    struct sim_world *world = client->world;

    if (link->state == SIM_HELLO) { /* another server is asked so much later */
        link->state = SIM_GREETED;
        rlock__timer_set(&world->timers, &link->timer,
                         world->now + CONFIRM + 2 * sim_delay(client, world));
        return;
    }
    if (client->epoch != world->epoch) {
        sim_map_hear(client);
    }
    if (link->state == SIM_GREETED) { /* still */
        sim_link_up(link, link->spoke_at);
    }
    sim_pump(client);
}
