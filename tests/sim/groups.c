/* SPDX-License-Identifier: Apache-2.0 */
/*
 * groups [--seed N] [--seeds COUNT] [--steps N] [--kind multi|redlock] [--faults N]
 *         [--trace] [--no-delay] [--drift-beyond]
 * Simulates multi-locks and RedLocks from seed N on. A seed that fails prints itself; `groups
 * --seed N --seeds 1 --trace` replays it exactly.
 *
 * --faults says how many of a thousand steps have one, in every seed.
 * --no-delay lets servers count as soon as they restart, --drift-beyond lets clocks drift four
 * times as far as the leases allow for: then it must see two that are valid at once, and fails if
 * not.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <utlist.h>

#include "groups.h"
#include "overrun.h"
#include "rw/rw.h"

/* A lease ends a hundredth early for its owner. Two clocks that drift apart as far: a process's,
 * and a server's. */
#define DRIFT_PPM 4900
#define START (100 * RLOCK__SECOND) /* servers are old */
#define END (60 * RLOCK__SECOND)    /* for what is under way to come to an end */

#define AT_ONCE 5000 /* steps in which no time passes */

struct options {
    uint64_t seed, seeds, steps;
};

/* ---- A seed's world ---- */

static void draw_places(struct sim_groups *all, struct sim_lock *lock)
{
    const struct sim_group_config *config = &all->config;
    unsigned n = config->n_servers * config->n_keys;
    struct sim_place places[SIM_SERVERS * SIM_KEYS];

    for (unsigned i = 0; i < n; i++) {
        unsigned j = (unsigned)sim_random(sim_home(all), i + 1);

        places[i] = places[j];
        places[j] = (struct sim_place){.server = i / config->n_keys, .key = i % config->n_keys};
    }
    lock->n = (size_t)(1 + sim_random(sim_home(all), rlock__min(n, SIM_MEMBERS)));
    memcpy(lock->at, places, lock->n * sizeof(places[0]));
    for (size_t i = 0; i < lock->n; i++) {
        if (sim_is_rw(all, lock->at[i])) {
            lock->at[i].side = sim_chance(sim_home(all), 600);
        }
    }
}

static void draw_locks(struct sim_groups *all)
{
    for (unsigned i = 0; i < all->config.n_locks; i++) {
        struct sim_lock *lock = &all->locks[i];

        if (all->config.kind == &rlock__multi_ops) {
            draw_places(all, lock);
            continue;
        }
        lock->n = all->config.n_servers; /* one key on every server */
        for (unsigned j = 0; j < lock->n; j++) {
            lock->at[j] = (struct sim_place){.server = j, .key = i};
        }
    }
}

/* Of a RedLock all members are plain; of a multi-lock they may be of several kinds. A key that
 * may be written may be read as well. */
static void draw_kinds(struct sim_groups *all)
{
    static const struct rlock_ops *const kinds[] = {&rlock__reentrant_ops, &rlock__spin_ops,
                                                    &rlock__fair_ops, &rlock__fenced_ops,
                                                    &rlock__write_ops};
    struct sim_world *home = sim_home(all);
    bool multi = all->config.kind == &rlock__multi_ops, mixed = multi && sim_chance(home, 400);
    bool written = multi && sim_chance(home, 250);

    for (unsigned i = 0; i < SIM_SERVERS * SIM_KEYS; i++) {
        all->kinds[i / SIM_KEYS][i % SIM_KEYS] = kinds[mixed     ? sim_random(home, 5)
                                                       : written ? 4
                                                                 : 0];
    }
}

static void configure(struct sim_groups *all)
{
    static const unsigned quorums[] = {3, 3, 3, 5, 5, 1, 2, 4};
    static const int64_t leases[] = {200, 400, 1000, 3000}, delays[] = {1, 4, 15};
    struct sim_group_config *config = &all->config;
    struct sim_world *home = sim_home(all);
    bool multi = sim_chance(home, 500);

    multi = all->only != NULL ? all->only == &rlock__multi_ops : multi;
    config->kind = multi ? &rlock__multi_ops : &rlock__redlock_ops;
    config->n_servers = multi ? 1 + (unsigned)sim_random(home, 3) : quorums[sim_random(home, 8)];
    config->n_keys = 1 + (unsigned)sim_random(home, multi ? SIM_KEYS : 2);
    config->n_locks = multi ? 1 + (unsigned)sim_random(home, SIM_LOCKS) : config->n_keys;
    config->n_processes = 2 + (unsigned)sim_random(home, SIM_PROCESSES - 1);
    config->hands = config->n_locks > 1 && multi && sim_chance(home, 500) ? 2 : 1;
    config->n_owners = config->hands * (1 + (unsigned)sim_random(home, 2));
    config->delay_max = delays[sim_random(home, 3)] * RLOCK__MS;
    config->lease = leases[sim_random(home, 4)] * RLOCK__MS;
    config->op_timeout = (40 + sim_random(home, 200)) * RLOCK__MS;
    config->max_lease = multi || all->no_delay ? 0 : config->lease;
    config->max_hold = 2 * config->lease;
    config->faults = sim_chance(home, 200) ? 0 : 1 + (unsigned)sim_random(home, 30);
    config->faults = all->only_faults != 0 ? all->only_faults : config->faults;
    config->lags = sim_chance(home, 500) ? 0 : 100;
    config->drift = all->drift_beyond ? 4 * DRIFT_PPM : config->faults != 0 ? DRIFT_PPM : 0;
}

static void open_server(struct sim_groups *all, unsigned i, uint64_t seed)
{
    const struct sim_group_config *config = &all->config;
    struct sim_world *world = &all->worlds[i], *home = sim_home(all);
    int64_t ppm = sim_chance(home, 500) ? config->drift : sim_random(home, config->drift);

    sim_server_reset(world->server, seed + i);
    world->now = START;
    world->server_started = 1;
    all->server_ppm[i] = sim_chance(home, 500) ? -ppm : ppm;
    world->config.n_clients = config->n_processes;
    world->config.n_keys = config->n_keys;
    world->config.delay_min = 20;
    world->config.delay_max = config->delay_max;
    world->config.lease = config->lease;
    world->config.faults = config->faults;
    world->config.n_nodes = world->config.n_links = 1;
    world->config.drop_messages = config->faults != 0 ? (unsigned)sim_random(home, 30) : 0;
    for (unsigned key = 0; key < SIM_KEYS; key++) {
        (void)snprintf(world->keys[key], sizeof(world->keys[key]), "lock-%u", key);
    }
    sim_wire_server(world);
    sim_server_now(all, i);
}

static void open_all(struct sim_groups *all, uint64_t seed)
{
    for (unsigned i = 0; i < SIM_SERVERS; i++) {
        struct sim_server *server = all->worlds[i].server;

        all->worlds[i] = (struct sim_world){
            .seed = seed,
            .random = seed * SIM_SERVERS + i,
            .server = server != NULL ? server : sim_server_new(seed),
            .trace = all->trace,
            .server_life = 1,
        };
        sim_server_want_keys(all->worlds[i].server, true);
    }
    all->steps = 0;
    all->healed = false;
    all->deceived_until = 0;
    memset(all->lives, 0, sizeof(all->lives));
    configure(all);
    all->config.seconds = seed % 6 == 4;
    for (unsigned i = 0; i < all->config.n_servers; i++) {
        open_server(all, i, seed);
    }
    draw_kinds(all);
    draw_locks(all);
    for (unsigned i = 0; i < all->config.n_processes; i++) {
        (void)sim_process_new(all, i);
    }
}

static void close_all(struct sim_groups *all)
{
    for (unsigned i = 0; i < all->config.n_processes; i++) {
        sim_process_kill(all->processes[i]);
    }
    for (unsigned i = 0; i < all->config.n_servers; i++) {
        sim_conns_fini(&all->worlds[i]);
        rlock__timer_unset(&all->worlds[i].timers, &all->worlds[i].restart);
    }
}

/* ---- Its run ---- */

/* A server's own clock. */
void sim_server_now(struct sim_groups *all, unsigned server)
{
    sim_server_set_time(all->worlds[server].server,
                        sim_drifted(all->worlds[server].now, all->server_ppm[server]));
}

/* NULL none. */
static const char *violation(const struct sim_groups *all)
{
    for (unsigned i = 0; i < SIM_SERVERS; i++) {
        if (all->worlds[i].violation[0] != '\0') {
            return all->worlds[i].violation;
        }
    }
    return NULL;
}

/* Whose turn it is: of those with the earliest time the first. */
static struct sim_world *next_world(struct sim_groups *all)
{
    struct sim_world *first = sim_home(all);

    for (unsigned i = 1; i < all->config.n_servers; i++) {
        if (rlock__timers_next(&all->worlds[i].timers) < rlock__timers_next(&first->timers)) {
            first = &all->worlds[i];
        }
    }
    return first;
}

static void step(struct sim_groups *all)
{
    struct sim_world *world = next_world(all);
    struct rlock__timer *timer = world->timers.root;
    int64_t now = rlock__max(world->now, timer->at);

    all->steps_at_once = now > world->now ? 0 : all->steps_at_once + 1;
    if (all->steps_at_once > AT_ONCE) {
        sim_violate(world, "goes round and round");
    }
    for (unsigned i = 0; i < all->config.n_servers; i++) {
        all->worlds[i].now = now;
        sim_server_now(all, i);
    }
    rlock__timer_unset(&world->timers, timer);
    timer->fire(timer, now);
    all->steps++;
    sim_groups_check(all);
}

/* Whether frames of connections that broke are under way: a server may run them yet. */
static bool is_under_way(const struct sim_world *world)
{
    const struct sim_conn *conn;

    DL_FOREACH(world->conns, conn) {
        if (conn->client == NULL && conn->under_way != NULL) {
            return true;
        }
    }
    return false;
}

static bool is_over(const struct sim_groups *all)
{
    for (unsigned i = 0; i < all->config.n_servers; i++) {
        if (is_under_way(&all->worlds[i])) {
            return false;
        }
    }
    for (unsigned i = 0; i < all->config.n_processes; i++) {
        const struct sim_process *process = all->processes[i];

        for (unsigned j = 0; j < all->config.n_owners; j++) {
            if (process->owners[j].calling || process->owners[j].depth > 0) {
                return false;
            }
        }
        for (unsigned j = 0; j < all->config.n_servers; j++) {
            if (!rlock__core_is_settled(&process->clients[j]->core)) {
                return false;
            }
        }
        if (process->groups != NULL) {
            return false;
        }
    }
    return true;
}

/* Nothing goes wrong any more: every effort comes to an end, and nothing is left. */
static void finish(struct sim_groups *all)
{
    int64_t limit = sim_home(all)->now + END;

    sim_groups_heal(all);
    while (violation(all) == NULL && !is_over(all) && sim_home(all)->now < limit) {
        step(all);
    }
    limit = sim_home(all)->now + 3 * all->config.lease; /* what is under way arrives; leases end */
    while (violation(all) == NULL && sim_home(all)->now < limit) {
        step(all);
    }
    if (violation(all) == NULL) {
        sim_groups_check_end(all);
    }
}

static bool run(struct sim_groups *all, uint64_t seed, uint64_t steps)
{
    const char *text;

    open_all(all, seed);
    while (all->steps < steps && violation(all) == NULL) {
        if (all->config.faults != 0 && sim_chance(sim_home(all), all->config.faults)) {
            sim_groups_fault(all);
        }
        step(all);
    }
    if (violation(all) == NULL) {
        finish(all);
    }
    text = violation(all);
    if (text != NULL) {
        printf("seed %llu fails after %llu steps: %s\n", (unsigned long long)seed,
               (unsigned long long)all->steps, text);
    }
    close_all(all);
    return text == NULL;
}

/* ---- The command ---- */

static bool read_options(int argc, char **argv, struct options *options, struct sim_groups *all)
{
    static const struct option longs[] = {
        {"seed", required_argument, NULL, 's'},
        {"seeds", required_argument, NULL, 'n'},
        {"steps", required_argument, NULL, 't'},
        {"kind", required_argument, NULL, 'k'},
        {"no-delay", no_argument, NULL, 'd'},
        {"drift-beyond", no_argument, NULL, 'b'},
        {"faults", required_argument, NULL, 'f'},
        {"trace", no_argument, NULL, 'v'},
        {NULL, 0, NULL, 0},
    };
    int c;

    while ((c = getopt_long(argc, argv, "", longs, NULL)) != -1) {
        if (c == 's') {
            options->seed = strtoull(optarg, NULL, 10);
        } else if (c == 'n') {
            options->seeds = strtoull(optarg, NULL, 10);
        } else if (c == 't') {
            options->steps = strtoull(optarg, NULL, 10);
        } else if (c == 'k') {
            all->only = strcmp(optarg, "multi") == 0 ? &rlock__multi_ops : &rlock__redlock_ops;
        } else if (c == 'f') {
            all->only_faults = (unsigned)strtoul(optarg, NULL, 10);
        } else if (c == 'd' || c == 'b' || c == 'v') {
            all->no_delay |= c == 'd';
            all->drift_beyond |= c == 'b';
            all->trace |= c == 'v';
        } else {
            return false;
        }
    }
    return true;
}

int main(int argc, char **argv)
{
    struct sim_groups *all = calloc(1, sizeof(*all));
    struct options options = {.seed = 1, .seeds = 1000, .steps = 1500};
    bool good = true, must_see, seen = false;

    if (!read_options(argc, argv, &options, all)) {
        free(all);
        return 64;
    }
    must_see = all->no_delay || all->drift_beyond;
    for (uint64_t i = 0; i < options.seeds && good; i++) {
        sim_overrun_watch(options.seed + i);
        good = run(all, options.seed + i, options.steps);
        seen = !good && strstr(violation(all), SIM_TWO_VALID) != NULL;
        good = good || (must_see && !seen); /* other seeds break other rules first */
    }
    printf("%lu grants, %lu losses, %lu refusals, %lu in doubt, %s\n", all->grants, all->losses,
           all->refusals, all->doubts, good ? "ok" : "violated");
    for (unsigned i = 0; i < SIM_SERVERS; i++) {
        all->worlds[i].server = sim_server_free(all->worlds[i].server);
    }
    free(all);
    return (must_see ? seen : good) ? EXIT_SUCCESS : EXIT_FAILURE;
}
