/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The servers of a world: one, or the nodes of a cluster. What is asked of them here is asked of
 * whichever has the key.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "topology/slot.h"
#include "world.h"

unsigned sim_n_nodes(const struct sim_world *world)
{
    return world->config.n_nodes > 1 ? world->config.n_nodes : 1;
}

void sim_node_name(unsigned node, char out[static SIM_NODE_ID_LEN + 1])
{
    (void)snprintf(out, SIM_NODE_ID_LEN + 1, "%0*u", SIM_NODE_ID_LEN, node);
}

void sim_nodes_start(struct sim_world *world)
{
    char id[SIM_NODE_ID_LEN + 1], address[16];

    for (unsigned i = 0; i < sim_n_nodes(world) && world->config.n_nodes > 1; i++) {
        for (unsigned j = 0; j < sim_n_nodes(world); j++) { /* itself first */
            unsigned node = (i + j) % sim_n_nodes(world);

            sim_node_name(node, id);
            (void)snprintf(address, sizeof(address), "n%u", node);
            sim_server_join(world->nodes[i].server, id, address);
        }
        for (unsigned key = 0; key < SIM_KEYS; key++) {
            unsigned slot = rlock__slot(rlock__bytes_of(world->keys[key]));
            unsigned node = (world->node_of[key] + sim_n_nodes(world) - i) % sim_n_nodes(world);

            sim_server_assign(world->nodes[i].server, slot, slot, 1 + node);
        }
    }
}

void sim_set_time(struct sim_world *world)
{
    for (unsigned i = 0; i < sim_n_nodes(world); i++) {
        sim_server_set_time(world->nodes[i].server, world->now);
    }
    if (world->config.n_acks != 0 && world->config.failover_us == 0) {
        sim_server_set_time(world->replica, world->now);
    }
}

/* ---- Where a key is ---- */

/* The lock that a name belongs to; SIM_KEYS: none. */
unsigned sim_key_of(const struct sim_world *world, struct sim_view name)
{
    unsigned key = 0;

    while (key < SIM_KEYS &&
           memmem(name.data, name.len, world->keys[key], strlen(world->keys[key])) == NULL) {
        key++;
    }
    return key;
}

static unsigned owner_of(const struct sim_world *world, struct sim_view name)
{
    unsigned key = sim_key_of(world, name);

    return key < SIM_KEYS ? world->node_of[key] : 0;
}

/* What is left elsewhere, by an attempt that came behind ASKING when the move had been called off,
 * is nobody's and ends with its lease. */
unsigned sim_holder_of(const struct sim_world *world, struct sim_view name)
{
    const struct sim_move *move = &world->move;
    unsigned owner = owner_of(world, name);
    struct sim_key_info info;

    if (sim_server_find_key(world->nodes[owner].server, name, &info)) {
        return owner;
    }
    if (move->timer.set && !move->is_off && sim_key_of(world, name) == move->key) {
        unsigned other = owner == move->from ? move->to : move->from;

        return sim_server_find_key(world->nodes[other].server, name, &info) ? other : SIM_NODES;
    }
    return SIM_NODES;
}

bool sim_find_key(const struct sim_world *world, struct sim_view name,
                  struct sim_key_info *ret_info)
{
    unsigned node = sim_holder_of(world, name);

    return node != SIM_NODES && sim_server_find_key(world->nodes[node].server, name, ret_info);
}

bool sim_find_field(const struct sim_world *world, struct sim_view key, struct sim_view field,
                    struct sim_view *ret_value)
{
    unsigned node = sim_holder_of(world, key);

    return node != SIM_NODES &&
           sim_server_find_field(world->nodes[node].server, key, field, ret_value);
}

bool sim_next_key(const struct sim_world *world, unsigned *inout_node, struct sim_key_info *info)
{
    for (; *inout_node < sim_n_nodes(world); ++*inout_node) {
        if (sim_server_next_key(world->nodes[*inout_node].server, info)) {
            return true;
        }
        *info = (struct sim_key_info){.n_items = 0};
    }
    return false;
}

size_t sim_n_subscribers(const struct sim_world *world, struct sim_view channel)
{
    size_t n = 0;

    for (unsigned i = 0; i < sim_n_nodes(world); i++) {
        n += sim_server_n_subscribers(world->nodes[i].server, channel, world->config.sharded);
    }
    return n;
}

/* ---- Something by hand ---- */

void sim_say_to(struct sim_server *server, const char *const *words, bool asking)
{
    uint64_t conn = sim_server_connect(server);

    if (asking) {
        (void)sim_server_words(server, conn, (const char *const[]){"ASKING", NULL});
    }
    (void)sim_server_words(server, conn, words);
    sim_server_disconnect(server, conn);
}

void sim_say_by_hand(struct sim_world *world, const char *const *words)
{
    struct sim_view name = {words[1], strlen(words[1])};
    unsigned node = sim_holder_of(world, name);

    node = node != SIM_NODES ? node : owner_of(world, name);
    sim_say_to(world->nodes[node].server, words, world->config.n_nodes > 1);
}
