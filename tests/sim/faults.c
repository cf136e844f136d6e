/* SPDX-License-Identifier: Apache-2.0 */
/* What goes wrong, one thing at a time, several at once. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "permits.h"
#include "topology/slot.h"
#include "world.h"

static struct sim_client *any_client(struct sim_world *world)
{
    struct sim_client *client = world->clients[sim_random(world, world->config.n_clients)];

    client->struck_at = world->now;
    return client;
}

static void disturb_all(struct sim_world *world, int64_t until)
{
    for (unsigned i = 0; i < world->config.n_clients; i++) {
        struct sim_client *client = world->clients[i];

        client->disturbed = rlock__max(client->disturbed, until);
    }
}

static void break_link(struct sim_world *world)
{
    struct sim_client *client = any_client(world);
    struct sim_link *link = sim_any_link(client, 300);

    if (link->state == SIM_UP && !sim_is_paused(client)) {
        sim_link_break(client, link, "cut");
        sim_pump(client);
    }
}

static void pause_client(struct sim_world *world)
{
    struct sim_client *client = any_client(world);

    int64_t until = world->now + sim_random(world, 2 * world->config.lease);

    client->paused_until = rlock__max(client->paused_until, until);
    client->disturbed = rlock__max(client->disturbed, client->paused_until);
    sim_trace(world, "client %u pauses until %.3f", client->index,
              (double)client->paused_until / 1000);
}

static void kill_client(struct sim_world *world)
{
    struct sim_client *client = any_client(world);
    unsigned index = client->index;

    sim_client_kill(client);
    (void)sim_client_new(world, index);
}

static void pause_server(struct sim_world *world)
{
    world->struck_at = world->now;
    world->server_paused_until = world->now + sim_random(world, 2 * world->config.lease);
    world->paused_node = world->config.n_nodes == 1 || sim_chance(world, 300)
                             ? SIM_NODES
                             : (unsigned)sim_random(world, world->config.n_nodes);
    disturb_all(world, world->server_paused_until);
    sim_trace(world, "server stops until %.3f", (double)world->server_paused_until / 1000);
}

static void on_restart(struct rlock__timer *timer, int64_t now)
{
    struct sim_world *world = RLOCK__OF(struct sim_world, restart, timer);

    (void)now;
    sim_trace(world, "server is back");
    world->server_down = false;
}

/* The next token is so much less than it would be. */
static void lower_token(struct sim_world *world, unsigned key, int64_t us)
{
    uint64_t back = (uint64_t)us, *last = &world->last_token[key];

    *last -= back < *last ? back : *last;
}

/* The counter of tokens is gone: the clock goes on where it stood, unless that is set back before
 * there is a new one. */
static void forget_token(struct sim_world *world, unsigned key)
{
    sim_doom_calls(world, key); /* they may have drawn from the old one */
    lower_token(world, key, -world->clock_offset);
    world->lacks_token[key] = sim_server_clock_us(world->server);
}

static void restart_server(struct sim_world *world)
{
    bool keep = sim_chance(world, 500);

    if (world->server_down || world->config.failover_us != 0) { /* those die one by one */
        return;
    }
    sim_trace(world, "server dies, will be back %s", keep ? "with its data" : "empty");
    for (unsigned i = 0; i < sim_n_nodes(world); i++) {
        sim_server_restart(world->nodes[i].server, keep);
    }
    world->server_life++;
    world->server_down = true;
    if (!keep) {
        sim_foreign_gone(world, NULL);
        sim_doom(world, -1);
        for (unsigned key = 0; key < SIM_KEYS; key++) {
            forget_token(world, key);
        }
    }
    sim_check_server(world);
    world->restart.fire = on_restart;
    rlock__timer_set(&world->timers, &world->restart,
                     world->now + sim_random(world, world->config.lease));
    disturb_all(world, world->restart.at + RLOCK__SECOND);
}

void sim_by_hand(struct sim_world *world, const char *const *words)
{
    char what[300] = "";

    for (size_t i = 0; words[i] != NULL; i++) {
        (void)strncat(what, words[i], 80);
        (void)strcat(what, " ");
    }
    sim_trace(world, "somebody does: %s", what);
    sim_say_by_hand(world, words);
    if (strcmp(words[0], "DEL") == 0) {
        sim_foreign_gone(world, words[1]);
        sim_peer_forgets(world, words[1]);
    }
}

static void delete_key(struct sim_world *world)
{
    unsigned key = (unsigned)sim_random(world, world->config.n_keys);
    char token[64];

    if (world->failover.is_on) { /* who has it does not answer, maybe */
        return;
    }
    (void)snprintf(token, sizeof(token), "redisson_lock_token:{%s}", world->keys[key]);
    if (sim_chance(world, 500)) {
        forget_token(world, key);
        sim_by_hand(world, (const char *const[]){"DEL", token, NULL});
        sim_doom_calls(world, key);
        return;
    }
    if (world->config.units != 0 && sim_chance(world, 500)) { /* the number alone: none is lost */
        sim_by_hand(world, (const char *const[]){"DEL", world->keys[key], NULL});
        return;
    }
    if (world->config.units != 0) {
        sim_permits_delete(world, key);
    }
    sim_by_hand(world, (const char *const[]){"DEL", world->keys[key], NULL});
    sim_doom(world, (int)key);
    sim_check_server(world);
}

/* A queue and its scores come apart. */
static void meddle(struct sim_world *world)
{
    unsigned key = (unsigned)sim_random(world, world->config.n_keys);
    struct sim_queue *queue = &world->queues[key];
    const char *head = queue->n != 0 ? queue->names[0] : "nobody:1";
    char list[64], scores[64];

    if ((world->config.kind->caps & RLOCK__CAP_QUEUES) == 0 || world->failover.is_on) {
        return;
    }
    (void)snprintf(list, sizeof(list), "redisson_lock_queue:{%s}", world->keys[key]);
    (void)snprintf(scores, sizeof(scores), "redisson_lock_timeout:{%s}", world->keys[key]);
    queue->meddled = world->was_meddled[key] = true;
    switch (sim_random(world, 6)) {
    case 0:
        sim_by_hand(world, (const char *const[]){"DEL", scores, NULL});
        break;
    case 1:
        sim_by_hand(world, (const char *const[]){"DEL", list, NULL});
        break;
    case 2:
        sim_by_hand(world, (const char *const[]){"ZREM", scores, head, NULL});
        break;
    case 3:
        sim_by_hand(world, (const char *const[]){"LREM", list, "0", head, NULL});
        break;
    case 4:
        sim_by_hand(world, (const char *const[]){"LPUSH", list, "ghost:1", NULL});
        break;
    default:
        sim_by_hand(world, (const char *const[]){"ZADD", scores, "1800000000000", "ghost:1", NULL});
        break;
    }
    sim_check_server(world);
}

/* A connection goes silent: nothing passes, nobody is told. */
static void mute_link(struct sim_world *world)
{
    struct sim_client *client = any_client(world);

    struct sim_link *link = sim_any_link(client, 0);

    if (link->state == SIM_UP && !sim_is_paused(client)) {
        link->conn->mute = true;
        client->hampered = rlock__max(client->hampered, world->now + world->config.op_timeout);
        sim_trace(world, "client %u: link goes silent", client->index);
    }
}

/* The server refuses to run scripts, for a moment. */
static void refuse_scripts(struct sim_world *world)
{
    static const char *const errors[] = {
        "-LOADING Redis is loading the dataset in memory\r\n",
        "-BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN.\r\n",
        "-MISCONF Redis is configured to save RDB snapshots, but it cannot\r\n",
    };
    static const char *const demoted = "-READONLY You can't write against a read only replica.\r\n";
    int64_t most = rlock__min(world->config.lease / 10, 100 * RLOCK__MS);

    world->struck_at = world->now;
    world->refusal = errors[sim_random(world, 3)];
    if (world->config.n_nodes == 1 && world->seed % 16 == 4) { /* as behind a name that moves */
        world->refusal = demoted;
    }
    world->refuses_until = world->now + sim_random(world, most);
    sim_trace(world, "server refuses scripts until %.3f", (double)world->refuses_until / 1000);
}

static void flush_scripts(struct sim_world *world)
{
    for (unsigned i = 0; i < sim_n_nodes(world); i++) {
        sim_server_script_flush(world->nodes[i].server);
    }
}

/* The server's clock goes back a little, so that leases last longer by that. Tokens must not care.
 */
static void set_clock_back(struct sim_world *world)
{
    if (world->config.kind != &rlock__fenced_ops || world->clock_offset < -60 * RLOCK__MS) {
        return;
    }
    int64_t back = sim_random(world, 40 * RLOCK__MS);

    world->clock_offset -= back;
    sim_trace(world, "server's clock is set to %lld us", (long long)world->clock_offset);
    for (unsigned key = 0; key < SIM_KEYS; key++) {
        lower_token(world, key, world->lacks_token[key] != 0 ? back : 0);
    }
    for (unsigned i = 0; i < sim_n_nodes(world); i++) {
        sim_server_set_clock_offset(world->nodes[i].server, world->clock_offset);
    }
    if (world->config.n_acks != 0 && world->config.failover_us == 0) {
        sim_server_set_clock_offset(world->replica, world->clock_offset);
    }
}

/* What becomes of a key's slot, as whoever moves slots says it. */
static void set_slot(struct sim_world *world, unsigned key, const char *state)
{
    char slot[8];

    (void)snprintf(slot, sizeof(slot), "%u", rlock__slot(rlock__bytes_of(world->keys[key])));
    sim_by_hand(world, (const char *const[]){"CLUSTER", "SETSLOT", slot, state, SIM_OTHER, NULL});
}

static void close_slots(struct sim_world *world)
{
    for (unsigned key = 0; key < world->config.n_keys; key++) {
        if (world->now < world->open_until[key]) {
            world->open_until[key] = world->now;
            set_slot(world, key, "STABLE");
        }
    }
}

static void on_slot(struct rlock__timer *timer, int64_t now)
{
    (void)now;
    close_slots(RLOCK__OF(struct sim_world, slot, timer));
}

/* The slot of a key is being moved to another server of its cluster, and left so: longer than a
 * lease. What is held must live through that, and be given back; what is new may have to wait. */
static void open_slot(struct sim_world *world)
{
    unsigned key = (unsigned)sim_random(world, world->config.n_keys);

    close_slots(world);
    world->open_until[key] = world->now + 1 + sim_random(world, 3 * world->config.lease);
    world->slot.fire = on_slot;
    rlock__timer_set(&world->timers, &world->slot, world->open_until[key] - 1);
    set_slot(world, key, "MIGRATING");
}

/* Nothing passes between a client and one of the servers, or it cannot ask for a new map. */
static void cut_off(struct sim_world *world)
{
    struct sim_client *client = any_client(world);
    int64_t until = world->now + sim_random(world, 2 * world->config.lease);

    if (sim_chance(world, 300) && client->hear.set) {
        rlock__timer_set(&world->timers, &client->hear, rlock__max(client->hear.at, until));
    } else {
        client->cut_node = (unsigned)sim_random(world, world->config.n_nodes);
        client->cut_node_until = until;
    }
    client->disturbed = rlock__max(client->disturbed, until);
    sim_trace(world, "client %u is cut off until %.3f", client->index, (double)until / 1000);
}

void sim_fault(struct sim_world *world)
{
    static const struct {
        int64_t weight;
        void (*strike)(struct sim_world *world);
    } faults[] = {
        {50, break_link},    {15, pause_client},   {8, kill_client},    {6, pause_server},
        {3, restart_server}, {3, delete_key},      {10, flush_scripts}, {2, meddle},
        {5, mute_link},      {10, refuse_scripts}, {8, set_clock_back},
    };
    int64_t dice = sim_random(world, 120);

    if (world->config.failover_us != 0 && sim_chance(world, 300)) {
        sim_fail_over(world);
        return;
    }
    if (world->config.failover_us != 0 && sim_chance(world, 150)) {
        cut_off(world);
        return;
    }
    if (world->config.moves_slots && sim_chance(world, world->only.slots ? 800 : 400)) {
        sim_move_slot(world);
        return;
    }
    if (world->config.failover_us != 0 && sim_chance(world, 100)) {
        sim_replica_lags(world);
        return;
    }
    if (world->config.n_acks != 0 && sim_chance(world, 100)) {
        if (sim_chance(world, 200)) {
            sim_replica_leaves(any_client(world));
        } else if (world->config.failover_us == 0 && sim_chance(world, 500)) {
            sim_standby_strikes(world);
        } else {
            sim_replica_lags(world);
        }
        return;
    }
    if (world->config.opens_slots && sim_chance(world, 300)) {
        open_slot(world);
        return;
    }
    for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
        if (dice < faults[i].weight) {
            faults[i].strike(world);
            return;
        }
        dice -= faults[i].weight;
    }
}

void sim_heal(struct sim_world *world)
{
    world->healed = true;
    sim_standby_ends(world);
    sim_foreign_go(world);
    close_slots(world);
    sim_moves_end(world);
    world->server_down = false;
    world->server_paused_until = rlock__min(world->server_paused_until, world->now);
    sim_peer_goes(world);
    rlock__timer_unset(&world->timers, &world->restart);
    for (unsigned i = 0; i < world->config.n_clients; i++) {
        world->clients[i]->paused_until = 0;
        world->clients[i]->cut_node = SIM_NODES;
    }
}
