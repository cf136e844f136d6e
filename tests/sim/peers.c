/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program with another library that uses a semaphore of ours, like a Redisson. It takes units
 * from the number and gives them back. Nothing on the server says that it has them. Its random
 * numbers come from a stream of their own, so that seeds without it are what they would be.
 */
#include <stdio.h>

#include "base/random.h"
#include "permits.h"
#include "world.h"

static int64_t draw(struct sim_world *world, int64_t n)
{
    return rlock__random_below(&world->peer.random, n);
}

/* What another library does while the client's servers fail is not what is tried here. */
void sim_peer_start(struct sim_world *world)
{
    const bool comes = (world->config.kind == &rlock__semaphore_ops || sim_latch_is(world)) &&
                       world->config.failover_us == 0 && world->seed % 2 == 0;

    world->peer.random = (world->seed + 7) * UINT64_C(0x9E3779B97F4A7C15);
    world->peer.at = comes ? draw(world, world->config.lease) : RLOCK__NEVER;
}

static void announce(struct sim_world *world, unsigned key, const char *command, int64_t free)
{
    char channel[64], message[24];

    (void)snprintf(channel, sizeof(channel), "redisson_sc:{%s}", world->keys[key]);
    (void)snprintf(message, sizeof(message), "%lld", (long long)free);
    sim_by_hand(world, (const char *const[]){command, channel, message, NULL});
}

/* Takes so many units from the number; or gives them back if units is negative, and says so. */
static void take(struct sim_world *world, unsigned key, int64_t units)
{
    char text[24];
    int64_t free;

    world->peer_units[key] += units;
    (void)snprintf(text, sizeof(text), "%lld", (long long)-units);
    sim_by_hand(world, (const char *const[]){"INCRBY", world->keys[key], text, NULL});
    if (units > 0 && draw(world, 4) == 0) { /* trySetPermits() with a TTL leaves it so */
        sim_by_hand(world, (const char *const[]){"PEXPIRE", world->keys[key], "3600000", NULL});
    }
    if (units < 0 && sim_permits_number(world, key, &free)) {
        announce(world, key, "PUBLISH", free);
        if (world->config.sharded) {
            announce(world, key, "SPUBLISH", free);
        }
    }
    sim_check_server(world);
}

static bool is_in_reach(const struct sim_world *world, unsigned key)
{
    return !world->server_down && world->now >= world->open_until[key] && !world->move.timer.set &&
           !sim_foreign_is_at(world, key);
}

void sim_peer_step(struct sim_world *world)
{
    struct sim_peer *peer = &world->peer;
    unsigned key;
    int64_t free;

    if (world->healed || world->now < peer->at) {
        return;
    }
    peer->at = world->now + 1 + draw(world, world->config.lease);
    key = (unsigned)draw(world, world->config.n_keys);
    if (!is_in_reach(world, key)) {
        return;
    }
    if (sim_latch_is(world)) {
        sim_latch_peer(world, key, draw(world, 1000));
    } else if (!sim_permits_number(world, key, &free)) {
        return;
    } else if (world->peer_units[key] > 0) {
        take(world, key, -1 - draw(world, world->peer_units[key]));
    } else if (free > 0) {
        take(world, key, 1 + draw(world, free));
    }
}

void sim_peer_goes(struct sim_world *world)
{
    int64_t free;

    for (unsigned key = 0; key < SIM_KEYS; key++) {
        if (world->peer_units[key] > 0 && sim_permits_number(world, key, &free)) {
            take(world, key, -world->peer_units[key]);
        }
    }
}

void sim_peer_forgets(struct sim_world *world, const char *name)
{
    for (unsigned key = 0; key < SIM_KEYS; key++) {
        if (strcmp(world->keys[key], name) == 0) {
            world->peer_units[key] = 0;
        }
    }
}
