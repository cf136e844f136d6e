/* SPDX-License-Identifier: Apache-2.0 */
/* Processes: each has a client of every server, all of them on its one clock. */
#include <stdio.h>
#include <stdlib.h>
#include <utlist.h>

#include "groups.h"
#include "rw/rw.h"

int64_t sim_process_clock(const struct sim_process *process)
{
    return sim_clock(process->clients[0]);
}

bool sim_process_is_paused(const struct sim_process *process)
{
    return sim_is_paused(process->clients[0]);
}

struct sim_client *sim_client_of(const struct rlock__member *member)
{
    return RLOCK__OF(struct sim_client, core, member->spec->core);
}

static struct sim_groups *all_of(const struct sim_client *client)
{
    struct sim_world *worlds = client->world - (client->core.opts.serial - 1) / SIM_PROCESSES;

    return RLOCK__OF(struct sim_groups, worlds, worlds);
}

struct sim_groups *sim_groups_of(const struct sim_world *world)
{
    return all_of(world->clients[0]);
}

struct sim_process *sim_process_of(const struct rlock__member *member)
{
    const struct sim_client *client = sim_client_of(member);

    return all_of(client)->processes[client->index];
}

struct sim_place sim_place_of(const struct rlock__member *member)
{
    const struct sim_client *client = sim_client_of(member);
    struct sim_place place = {.server = (unsigned)(client->world - all_of(client)->worlds)};

    while (client->specs[0][place.key] != member->spec &&
           client->specs[1][place.key] != member->spec) {
        place.key++;
    }
    place.side = client->specs[1][place.key] == member->spec;
    return place;
}

bool sim_is_rw(const struct sim_groups *all, struct sim_place place)
{
    return all->kinds[place.server][place.key] == &rlock__write_ops;
}

/* ---- A client ---- */

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

/* Losses wait for the dispatcher, which is a thread of its own. */
static void queue_loss(struct sim_process *process, struct rlock__loss *loss)
{
    struct sim_world *home = sim_home(process->all);

    LL_APPEND(process->losses, loss);
    if (!process->dispatch.set) {
        int64_t lag =
            sim_chance(home, process->all->config.lags) ? sim_random(home, 5 * RLOCK__MS) : 0;

        rlock__timer_set(&home->timers, &process->dispatch, home->now + lag);
    }
}

void sim_pump(struct sim_client *client)
{
    struct rlock__core *core = &client->core;
    struct sim_process *process = all_of(client)->processes[client->index];
    struct rlock__listener *listener;

    do {
        while (core->lost != NULL) {
            struct rlock__loss *loss = core->lost;

            DL_DELETE(core->lost, loss);
            if (loss->reason == RLOCK_LOST_RESTARTED && core->recovery.tickets == NULL) {
                sim_violate(client->world,
                            "process %u: a hold that a restart ended is not given back",
                            client->index);
            }
            queue_loss(process, loss);
        }
        while (core->done != NULL) {
            struct rlock__call *call = core->done;

            DL_DELETE(core->done, call);
            call->finish(call);
        }
        while ((listener = rlock__core_take_notified(core)) != NULL) {
            listener->notify(listener);
        }
        while (core->notes != NULL) {
            struct rlock__note *note = core->notes;

            DL_DELETE(core->notes, note);
            sim_trace(client->world, "process %u: %s", client->index, note->text);
            free(note);
        }
        sim_wire_pump(client);
    } while (core->lost != NULL || core->done != NULL || core->notified != NULL);
    rlock__timer_set(&client->world->timers, &client->tick,
                     rlock__core_next(core) == RLOCK__NEVER
                         ? RLOCK__NEVER
                         : sim_world_time(client, rlock__core_next(core)));
}

/* A group has no server whose writes are acknowledged. */
void sim_failover_ran(struct sim_world *world, unsigned node)
{
    (void)world;
    (void)node;
}

void sim_replica_wait(struct sim_conn *conn, const char *bytes, size_t len)
{
    (void)bytes;
    (void)len;
    sim_violate(conn->world, "a WAIT that nobody asked for");
}

void sim_standby_client(struct sim_client *client)
{
    (void)client;
}

void sim_standby_know(struct sim_client *client, unsigned node, bool has_replica)
{
    (void)client;
    (void)node;
    (void)has_replica;
}

bool sim_standby_answers(struct sim_conn *conn, const char *bytes, size_t len)
{
    (void)conn;
    (void)bytes;
    (void)len;
    return false;
}

void sim_check_server(struct sim_world *world)
{
    (void)world; /* looked at after each step */
}

static void on_unref(struct rlock__core *core)
{
    (void)core; /* its process owns it */
}

/* Whether its UUIDs say that it is of another library: that changes how a RedLock waits. The seed
 * itself decides, so that other seeds do as they would without. */
static bool is_peer(const struct sim_process *process)
{
    return process->all->config.kind == &rlock__redlock_ops &&
           process->all->worlds[0].seed % 4 == 1 && process->index % 2 == 1;
}

static struct sim_client *client_new(struct sim_process *process, unsigned server)
{
    static const char *const addresses[SIM_SERVERS] = {"server-0", "server-1", "server-2",
                                                       "server-3", "server-4"};
    const struct sim_group_config *config = &process->all->config;
    struct sim_world *world = &process->all->worlds[server];
    struct sim_client *client = calloc(1, sizeof(*client));

    client->world = world;
    client->index = process->index;
    client->alive = true;
    client->may_kill = config->faults == 0 || !sim_chance(world, 50);
    client->may_listen = config->faults == 0 || !sim_chance(world, 50);
    client->tick.fire = on_tick;
    (void)snprintf(client->core.opts.uuid, sizeof(client->core.opts.uuid),
                   "00000000-0000-%c000-8%u%02u-%04u%08llx", is_peer(process) ? '4' : '8', server,
                   process->index, 0, (unsigned long long)sim_random(world, 0xffffffff));
    client->core.opts.serial = server * SIM_PROCESSES + process->index + 1;
    client->core.random = (uint64_t)sim_random(world, INT64_MAX) | 1;
    client->core.opts.renewed_lease_us = config->lease;
    client->core.opts.op_timeout_us = config->op_timeout;
    client->core.opts.prefix = rlock__bytes("", 0);
    client->core.driver.unref = on_unref;
    client->core.opts.log_level = world->trace ? RLOCK_LOG_DEBUG : 0;
    client->core.opts.logs_all = true;
    sim_wire_core(client, addresses[server]);
    for (unsigned i = 0; i < config->n_keys; i++) {
        client->specs[0][i] = rlock__spec_new(&client->core, process->all->kinds[server][i],
                                              rlock__bytes_of(world->keys[i]), NULL);
        if (sim_is_rw(process->all, (struct sim_place){.server = server, .key = i})) {
            client->specs[1][i] = rlock__spec_new(&client->core, &rlock__read_ops,
                                                  rlock__bytes_of(world->keys[i]), NULL);
        }
    }
    world->clients[process->index] = client;
    sim_wire_client(client);
    return client;
}

static void client_free(struct sim_client *client)
{
    struct rlock__timers *timers = &client->world->timers;

    rlock__timer_unset(timers, &client->tick);
    sim_wire_end(client);
    rlock__core_fini(&client->core);
    for (unsigned i = 0; i < SIM_KEYS; i++) {
        (void)rlock__spec_unref(client->specs[0][i]);
        (void)rlock__spec_unref(client->specs[1][i]);
    }
    client->world->clients[client->index] = NULL;
    free(client);
}

/* ---- A process ---- */

/* Everybody names the members in an order of his own. */
static struct rlock__group_spec *lock_spec_new(struct sim_process *process,
                                               const struct sim_lock *lock)
{
    struct sim_world *home = sim_home(process->all);
    struct rlock__spec *specs[SIM_MEMBERS];
    struct rlock__group_spec *spec;

    for (size_t i = 0; i < lock->n; i++) {
        size_t j = (size_t)sim_random(home, (int64_t)i + 1);

        specs[i] = specs[j];
        specs[j] = process->clients[lock->at[i].server]->specs[lock->at[i].side][lock->at[i].key];
    }
    spec = rlock__group_spec_new(process->all->config.kind, specs, lock->n);
    spec->max_lease_us = process->all->config.max_lease;
    return spec;
}

struct sim_process *sim_process_new(struct sim_groups *all, unsigned index)
{
    struct sim_process *process = calloc(1, sizeof(*process));
    struct sim_world *home = sim_home(all);
    int64_t ppm = sim_chance(home, 500) ? all->config.drift : sim_random(home, all->config.drift);
    int64_t offset = 1 + sim_random(home, RLOCK__SECOND);

    process->all = all;
    process->index = index;
    process->registry.random = (uint64_t)sim_random(home, INT64_MAX) | 1;
    process->dispatch.fire = sim_on_dispatch;
    all->processes[index] = process;
    ppm = sim_chance(home, 500) ? -ppm : ppm;
    for (unsigned i = 0; i < all->config.n_servers; i++) {
        process->clients[i] = client_new(process, i);
        process->clients[i]->ppm = ppm;
        process->clients[i]->offset = offset;
    }
    for (unsigned i = 0; i < all->config.n_locks; i++) {
        process->locks[i] = lock_spec_new(process, &all->locks[i]);
    }
    sim_owners_start(process);
    return process;
}

static void forget_groups(struct sim_process *process)
{
    struct rlock__group *group, *after;
    struct rlock__loss *loss, *loss_after;

    DL_FOREACH_SAFE(process->groups, group, after) {
        if (group->untold != NULL) {
            (void)rlock__loss_free(group->untold);
        }
        rlock__group_free(group);
    }
    rlock__table_fini(&process->registry.members);
    LL_FOREACH_SAFE(process->losses, loss, loss_after) {
        (void)rlock__loss_free(loss);
    }
}

/* Requests whose calls are no more have no subject. */
static void forget_calls(struct sim_process *process)
{
    struct rlock__group *group;

    DL_FOREACH(process->groups, group) {
        for (size_t i = 0; i < group->spec->n; i++) {
            struct rlock__member *member = &group->members[i];

            if (member->running && member->call.core != NULL &&
                member->call.step != RLOCK__COMPLETE && member->call.request != NULL) {
                member->call.request->subject = NULL;
            }
        }
    }
    for (unsigned i = 0; i < process->all->config.n_servers; i++) {
        rlock__core_abandon(&process->clients[i]->core);
    }
}

void sim_process_kill(struct sim_process *process)
{
    struct sim_groups *all = process->all;
    struct rlock__timers *timers = &sim_home(all)->timers;

    for (unsigned i = 0; i < all->config.n_servers; i++) {
        sim_wire_end(process->clients[i]);
    }
    forget_calls(process); /* which may wake an owner */
    for (unsigned i = 0; i < SIM_OWNERS; i++) {
        rlock__timer_unset(timers, &process->owners[i].act);
        rlock__timer_unset(timers, &process->owners[i].drive);
        rlock__timer_unset(timers, &process->owners[i].second);
    }
    rlock__timer_unset(timers, &process->dispatch);
    forget_groups(process);
    for (unsigned i = 0; i < all->config.n_locks; i++) {
        (void)rlock__group_spec_unref(process->locks[i]);
    }
    for (unsigned i = 0; i < all->config.n_servers; i++) {
        client_free(process->clients[i]);
    }
    all->processes[process->index] = NULL;
    free(process);
}
