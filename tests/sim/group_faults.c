/* SPDX-License-Identifier: Apache-2.0 */
/* What goes wrong between processes and servers, one thing at a time, several at once. */
#include <stdio.h>

#include "groups.h"

static struct sim_process *any_process(struct sim_groups *all)
{
    return all->processes[sim_random(sim_home(all), all->config.n_processes)];
}

static struct sim_world *any_server(struct sim_groups *all)
{
    return &all->worlds[sim_random(sim_home(all), all->config.n_servers)];
}

static struct sim_client *any_client(struct sim_groups *all)
{
    return any_process(all)->clients[any_server(all) - all->worlds];
}

static unsigned number_of(const struct sim_groups *all, const struct sim_world *world)
{
    return (unsigned)(world - all->worlds);
}

static void break_link(struct sim_groups *all)
{
    struct sim_client *client = any_client(all);
    struct sim_link *link = sim_chance(sim_home(all), 700) ? &client->links[0] : &client->subs[0];

    if (link->state == SIM_UP && !sim_is_paused(client)) {
        sim_link_break(client, link, "cut");
        sim_pump(client);
    }
}

/* Between a process and a server nothing passes for a while, one way or both. */
static void part(struct sim_groups *all)
{
    struct sim_client *client = any_client(all);
    struct sim_world *home = sim_home(all);
    int64_t until = home->now + sim_random(home, 2 * all->config.lease);
    int64_t ways = 1 + sim_random(home, 3);

    for (unsigned way = 0; way < 2; way++) {
        if ((ways & (1 << way)) != 0) {
            client->cut_until[way] = rlock__max(client->cut_until[way], until);
        }
    }
    sim_trace(home, "process %u and server %u are parted until %.3f%s", client->index,
              number_of(all, client->world), (double)until / 1000,
              ways == 1   ? ", requests wait"
              : ways == 2 ? ", replies wait"
                          : "");
}

static void mute_link(struct sim_groups *all)
{
    struct sim_client *client = any_client(all);

    if (client->links[0].state == SIM_UP && !sim_is_paused(client)) {
        client->links[0].conn->mute = true;
        sim_trace(client->world, "process %u: its link to server %u goes silent", client->index,
                  number_of(all, client->world));
    }
}

static void pause_process(struct sim_groups *all)
{
    struct sim_process *process = any_process(all);
    struct sim_world *home = sim_home(all);
    int64_t until = home->now + sim_random(home, 2 * all->config.lease);

    for (unsigned i = 0; i < all->config.n_servers; i++) {
        process->clients[i]->paused_until = rlock__max(process->clients[i]->paused_until, until);
    }
    for (unsigned i = 0; i < all->config.n_owners; i++) {
        process->owners[i].excused = true;
    }
    sim_trace(home, "process %u pauses until %.3f", process->index, (double)until / 1000);
}

static void kill_process(struct sim_groups *all)
{
    struct sim_process *process = any_process(all);
    unsigned index = process->index;

    if (sim_home(all)->now < all->deceived_until) {
        return;
    }
    sim_trace(sim_home(all), "process %u dies", index);
    sim_process_kill(process);
    (void)sim_process_new(all, index);
}

/* It gives up one of its clients, whatever its owners have of it. */
static void close_client(struct sim_groups *all)
{
    struct sim_client *client = any_client(all);

    if (!client->closed && !sim_is_paused(client)) {
        sim_trace(sim_home(all), "process %u closes its client of server %u", client->index,
                  number_of(all, client->world));
        client->closed = true;
        rlock__core_close(&client->core, sim_clock(client));
        sim_pump(client);
    }
}

static void pause_server(struct sim_groups *all)
{
    struct sim_world *world = any_server(all);

    world->server_paused_until = world->now + sim_random(world, 2 * all->config.lease);
    sim_trace(world, "server %u stops until %.3f", number_of(all, world),
              (double)world->server_paused_until / 1000);
}

static void begin_life(struct sim_world *world)
{
    world->server_down = false;
    world->server_started = sim_server_clock_us(world->server) - SIM_EPOCH_US;
}

static void on_restart(struct rlock__timer *timer, int64_t now)
{
    struct sim_world *world = RLOCK__OF(struct sim_world, restart, timer);

    (void)now;
    sim_trace(world, "a server is back");
    begin_life(world);
}

/* Whether every process has been linked to a server. */
static bool is_known_to_all(const struct sim_groups *all, const struct sim_world *world)
{
    for (unsigned i = 0; i < all->config.n_processes; i++) {
        if (world->clients[i]->core.servers->run_id[0] == '\0') {
            return false;
        }
    }
    return true;
}

/* The clock of a server is set that has come back empty a short while ago: its uptime is negative
 * then, or of an old server. Only who saw it before can know that it is not. */
static void on_step(struct rlock__timer *timer, int64_t now)
{
    struct sim_world *world = RLOCK__OF(struct sim_world, restart, timer);
    struct sim_groups *all = sim_groups_of(world);
    bool back = !is_known_to_all(all, world) || sim_chance(world, 500);
    int64_t step = sim_random(world, 4 * all->config.lease);

    if (!back) {
        all->deceived_until = now + 2 * all->config.lease;
    }
    world->clock_offset += back ? -step : step;
    sim_server_set_clock_offset(world->server, world->clock_offset);
    sim_trace(world, "server %u: its clock is set by %.3f ms", number_of(all, world),
              (double)(back ? -step : step) / 1000);
}

/* Before it counts for anybody: what it has until then is no hold. */
static void on_restart_before_step(struct rlock__timer *timer, int64_t now)
{
    struct sim_world *world = RLOCK__OF(struct sim_world, restart, timer);
    int64_t latest = sim_groups_of(world)->config.lease / 2;

    on_restart(timer, now);
    world->restart.fire = on_step;
    rlock__timer_set(&world->timers, timer,
                     now + (sim_chance(world, 500) ? 0 : sim_random(world, latest)));
}

/* Keys are gone without a release: who held them finds out later. */
static void doom(struct sim_groups *all, unsigned server, int key)
{
    for (int i = 0; i < SIM_KEYS; i++) {
        all->lives[server][i] += key < 0 || i == key;
    }
}

/* How long it is down: a while, no time at all, or until just before a second of its clock is full,
 * when what it tells of its uptime is most wrong. */
static int64_t downtime(const struct sim_groups *all, struct sim_world *world)
{
    int64_t dice = sim_random(world, 10), most = all->config.lease;
    int64_t rest = RLOCK__SECOND - sim_server_clock_us(world->server) % RLOCK__SECOND;

    if (dice < 3) {
        return 1;
    }
    return dice < 7 && rest < most ? rlock__max(rest - RLOCK__MS, 1) : 1 + sim_random(world, most);
}

static void restart_server(struct sim_groups *all)
{
    struct sim_world *world = any_server(all);
    bool keep = sim_chance(world, 400);
    bool steps = !keep && all->config.kind == &rlock__redlock_ops && sim_chance(world, 500);

    if (world->server_down) {
        return;
    }
    sim_trace(world, "server %u dies, will be back %s", number_of(all, world),
              keep ? "with its data" : "empty");
    sim_server_restart(world->server, keep);
    world->server_life++;
    world->server_down = true;
    if (!keep) {
        doom(all, number_of(all, world), -1);
    }
    world->restart.fire = steps ? on_restart_before_step : on_restart;
    rlock__timer_set(&world->timers, &world->restart, world->now + downtime(all, world));
}

/* Somebody opens a lock by force: by hand, or with a client of his own, which knows at once. */
static void delete_key(struct sim_groups *all)
{
    struct sim_world *world = any_server(all);
    unsigned key = (unsigned)sim_random(world, all->config.n_keys);
    struct sim_key_info info;
    struct sim_view item;
    uint64_t conn, number;
    char command[64], owner[SIM_OWNER_SIZE];

    if (all->config.kind != &rlock__multi_ops ||
        !sim_server_find_key(world->server, (struct sim_view){world->keys[key], 6}, &info)) {
        return;
    }
    item = sim_key_item(&info, (size_t)sim_random(world, (int64_t)info.n_items))
               .name; /* or the mode */
    (void)snprintf(owner, sizeof(owner), "%.*s", (int)item.len, item.data);
    sim_trace(world, "somebody opens key %u of server %u by force", key, number_of(all, world));
    conn = sim_server_connect(world->server);
    (void)snprintf(command, sizeof(command), "*2\r\n$3\r\nDEL\r\n$6\r\n%s\r\n", world->keys[key]);
    (void)sim_server_command(world->server, conn, command, strlen(command));
    sim_server_disconnect(world->server, conn);
    doom(all, number_of(all, world), (int)key);
    number = strtoull(owner + RLOCK__UUID_LEN + 1, NULL, 10);
    for (unsigned i = 0; i < all->config.n_processes; i++) {
        struct sim_client *client = world->clients[i];

        if (strncmp(owner, client->core.opts.uuid, RLOCK__UUID_LEN) == 0 &&
            !sim_is_paused(client) && sim_chance(world, 500)) {
            rlock__core_forced(&client->core, number, sim_clock(client));
            sim_pump(client);
        }
    }
}

static void flush_scripts(struct sim_groups *all)
{
    sim_server_script_flush(any_server(all)->server);
}

void sim_groups_fault(struct sim_groups *all)
{
    static const struct {
        int64_t weight;
        void (*strike)(struct sim_groups *all);
    } faults[] = {
        {30, break_link},   {30, part},        {8, mute_link},       {15, pause_process},
        {6, kill_process},  {5, pause_server}, {12, restart_server}, {6, delete_key},
        {4, flush_scripts}, {8, close_client},
    };
    int64_t dice = sim_random(sim_home(all), 124);

    for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
        if (dice < faults[i].weight) {
            faults[i].strike(all);
            return;
        }
        dice -= faults[i].weight;
    }
}

void sim_groups_heal(struct sim_groups *all)
{
    all->healed = true;
    sim_trace(sim_home(all), "all is well from here on");
    for (unsigned i = 0; i < all->config.n_servers; i++) {
        struct sim_world *world = &all->worlds[i];

        world->healed = true;
        world->server_paused_until = rlock__min(world->server_paused_until, world->now);
        rlock__timer_unset(&world->timers, &world->restart);
        if (world->server_down) {
            begin_life(world);
        }
        for (unsigned j = 0; j < all->config.n_processes; j++) {
            world->clients[j]->cut_until[0] = world->clients[j]->cut_until[1] = 0;
        }
    }
}
