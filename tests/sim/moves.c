/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Slots that are moved between the nodes of a cluster, key by key, as an administrator does: in
 * steps with other things in between, now and then left open, now and then called off. A server
 * that has a part in it is not replaced meanwhile: the one in its place would not know of the move.
 */
#include <stdio.h>
#include <string.h>

#include "checks.h"
#include "topology/slot.h"
#include "world.h"

enum step { IMPORT, MIGRATE, KEYS, FIRST, SECOND, OTHERS, BACK, CLOSE_FIRST, CLOSE_SECOND, DONE };

static void set_slot(struct sim_world *world, unsigned at, const char *state, unsigned other)
{
    char slot[8], id[SIM_NODE_ID_LEN + 1];

    (void)snprintf(slot, sizeof(slot), "%u",
                   rlock__slot(rlock__bytes_of(world->keys[world->move.key])));
    sim_node_name(other, id);
    sim_trace(world, "node %u: slot of %s %s %u", at, world->keys[world->move.key], state, other);
    sim_say_to(world->nodes[at].server,
               (const char *const[]){"CLUSTER", "SETSLOT", slot, state, id, NULL}, false);
}

static void note_move(struct sim_world *world, unsigned key)
{
    int64_t *at = world->moved_at[key];

    at[2] = at[1];
    at[1] = at[0];
    at[0] = world->now;
}

bool sim_moved_thrice(const struct sim_world *world, unsigned key, int64_t since)
{
    return world->moved_at[key][2] != 0 && world->moved_at[key][2] >= since;
}

/* Moves one key of the lock. Returns false when there is none any more. */
static bool move_one(struct sim_world *world, unsigned from, unsigned to)
{
    struct sim_server *source = world->nodes[from].server;
    struct sim_key_info info = {.n_items = 0};
    size_t n = 0, which;
    bool moved;

    while (sim_server_next_key(source, &info)) {
        n += sim_key_of(world, info.name) == world->move.key;
    }
    if (n == 0) {
        return false;
    }
    which = (size_t)sim_random(world, (int64_t)n);
    info = (struct sim_key_info){.n_items = 0};
    while (sim_server_next_key(source, &info)) {
        if (sim_key_of(world, info.name) == world->move.key && which-- == 0) {
            break;
        }
    }
    moved = sim_server_move_key(source, world->nodes[to].server, info.name);
    sim_trace(world, "%.*s goes from node %u to node %u%s", (int)info.name.len, info.name.data,
              from, to, moved ? "" : ": not yet");
    if (moved && info.name.len == strlen(world->keys[world->move.key])) {
        note_move(world, world->move.key);
    }
    /* of its keys the lock's own alone may be made there meanwhile */
    if (!moved && info.name.len != strlen(world->keys[world->move.key])) {
        sim_violate(world, "%.*s was made at node %u while it was on its way there",
                    (int)info.name.len, info.name.data, to);
    }
    if (!moved && world->move.tries++ > 20) { /* what both have is its owner's, in the end */
        sim_server_drop_key(world->nodes[world->move.to].server, info.name);
        sim_doom_calls(world, world->move.key);
    }
    return true;
}

/* Finds a key of the lock at a node. */
static bool find_one(const struct sim_world *world, unsigned node, struct sim_key_info *ret_info)
{
    *ret_info = (struct sim_key_info){.n_items = 0};
    while (sim_server_next_key(world->nodes[node].server, ret_info)) {
        if (sim_key_of(world, ret_info->name) == world->move.key) {
            return true;
        }
    }
    return false;
}

/* The move is called off: what came behind ASKING since the keys went back is lost. */
static void lose_rest(struct sim_world *world)
{
    const struct sim_move *move = &world->move;
    struct sim_view name = {world->keys[move->key], strlen(world->keys[move->key])};
    struct sim_key_info info;

    if (find_one(world, move->to, &info) &&
        !sim_server_find_key(world->nodes[move->from].server, name, &info)) {
        sim_doom(world, (int)move->key);
    }
}

void sim_move_loses(struct sim_world *world)
{
    const struct sim_move *move = &world->move;

    if (move->timer.set && move->is_off && !move->source_first) {
        lose_rest(world);
    }
}

static bool drop_one(struct sim_world *world, unsigned node)
{
    struct sim_key_info info;
    bool found = find_one(world, node, &info);

    if (found) {
        sim_trace(world, "node %u drops %.*s", node, (int)info.name.len, info.name.data);
        sim_server_drop_key(world->nodes[node].server, info.name);
    }
    return found;
}

/* What comes next. */
static enum step take(struct sim_world *world)
{
    struct sim_move *move = &world->move;
    unsigned first = move->source_first ? move->from : move->to;
    unsigned second = move->source_first ? move->to : move->from;

    switch ((enum step)move->step) {
    case IMPORT:
        set_slot(world, move->to, "IMPORTING", move->from);
        return MIGRATE;
    case MIGRATE:
        set_slot(world, move->from, "MIGRATING", move->to);
        return KEYS;
    case KEYS:
        if (move->aborts && sim_chance(world, 300)) {
            return BACK;
        }
        return move_one(world, move->from, move->to) ? KEYS : move->aborts ? BACK : FIRST;
    case FIRST:
        world->node_of[move->key] = move->to;
        set_slot(world, first, "NODE", move->to);
        sim_map_spread(world);
        return SECOND;
    case SECOND:
        set_slot(world, second, "NODE", move->to);
        return OTHERS;
    case OTHERS:
        for (unsigned i = 0; i < sim_n_nodes(world); i++) {
            set_slot(world, i, "NODE", move->to);
        }
        return DONE;
    case BACK:
        return move_one(world, move->to, move->from) ? BACK : CLOSE_FIRST;
    case CLOSE_FIRST:
        lose_rest(world);
        set_slot(world, move->source_first ? move->from : move->to, "STABLE", 0);
        move->is_off = true;
        return CLOSE_SECOND;
    case CLOSE_SECOND:
        set_slot(world, move->source_first ? move->to : move->from, "STABLE", 0);
        while (drop_one(world, move->to)) { /* whose grant may be on its way, or looked after */
            sim_doom_calls(world, move->key);
            world->entries[move->key].holder[0] = '\0'; /* nobody released it */
        }
        return DONE;
    case DONE:
    default:
        return DONE;
    }
}

static void go_on(struct sim_world *world)
{
    struct sim_move *move = &world->move;
    int64_t pause = sim_random(world, 2 * world->config.delay_max);

    move->step = (int)take(world);
    sim_move_replicates(world, move->from);
    sim_move_replicates(world, move->to);
    /* list and scores come one after the other */
    world->queues[move->key].meddled = world->was_meddled[move->key] = true;
    for (unsigned i = 0; i < world->config.n_clients; i++) {
        world->clients[i]->hampered = rlock__max(world->clients[i]->hampered, world->now);
    }
    if (move->step == DONE) {
        world->open_until[move->key] = world->now;
        sim_trace(world, "the slot of %s is whole", world->keys[move->key]);
        return;
    }
    if (!world->healed && sim_chance(world, 50)) { /* left open */
        pause = sim_random(world, 3 * world->config.lease);
    }
    rlock__timer_set(&world->timers, &move->timer, world->now + pause);
}

static void on_step(struct rlock__timer *timer, int64_t now)
{
    (void)now;
    go_on(RLOCK__OF(struct sim_world, move.timer, timer));
}

/* Whether a slot can be moved there, or from there: while a server is replaced it is not. */
static bool may_move(const struct sim_world *world, unsigned node)
{
    const struct sim_failover *failover = &world->failover;

    return !world->nodes[node].is_replica &&
           !(failover->is_on && (node == failover->from || node == failover->to));
}

void sim_move_slot(struct sim_world *world)
{
    struct sim_move *move = &world->move;
    unsigned key = (unsigned)sim_random(world, world->config.n_keys);
    unsigned by = 1 + (unsigned)sim_random(world, world->config.n_nodes - 1);
    unsigned from = world->node_of[key], to = (from + by) % world->config.n_nodes;

    if (move->timer.set || !may_move(world, from) || !may_move(world, to)) {
        return;
    }
    *move = (struct sim_move){.key = key,
                              .from = from,
                              .to = to,
                              .aborts = sim_chance(world, 300),
                              .source_first = sim_chance(world, 500),
                              .timer = {.fire = on_step}};
    world->open_until[key] = world->now + 86400 * RLOCK__SECOND; /* until it is whole */
    go_on(world);
}

bool sim_moves_from_or_to(const struct sim_world *world, unsigned node)
{
    return world->move.timer.set && (node == world->move.from || node == world->move.to);
}

void sim_moves_end(struct sim_world *world)
{
    while (world->move.timer.set) {
        rlock__timer_unset(&world->timers, &world->move.timer);
        go_on(world);
    }
}
