/* SPDX-License-Identifier: Apache-2.0 */
/* Opening a lock by force, as the front does it: looks who holds it, then deletes exactly that
 * one's lock. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "world.h"

static int read_look(struct rlock__call *call, const struct rlock__reply *reply)
{
    struct sim_user *user = call->payload;
    struct rlock_info info = {0};
    struct rlock__buf seen = {0};

    call->spec->ops->read_inspect(reply, &info, &seen);
    (void)snprintf(user->seen, sizeof(user->seen), "%.*s", (int)seen.len, seen.data);
    info.locked &= seen.len < sizeof(user->seen);
    rlock__buf_fini(&seen);
    return info.locked ? 0 : RLOCK_EBUSY;
}

static int read_force(struct rlock__call *call, const struct rlock__reply *reply)
{
    struct sim_user *user = call->payload;

    user->opened = call->spec->ops->read_release(reply).outcome == RLOCK__DONE;
    return 0;
}

void sim_force_look(struct sim_user *user)
{
    struct sim_world *world = user->client->world;
    struct rlock__spec *spec;

    if ((world->config.kind->caps & RLOCK__CAP_QUEUES) != 0) {
        sim_user_plan(user, RLOCK__MS); /* a queue without its order is not ours to judge */
        return;
    }
    user->side = world->config.other != NULL ? (unsigned)sim_random(world, SIM_SIDES) : 0;
    user->key = (unsigned)sim_random(world, world->config.n_keys);
    if (world->foreign.looks_held && sim_foreign_is_at(world, user->key)) {
        sim_user_plan(user, RLOCK__MS); /* that would open it, rightly */
        return;
    }
    spec = user->client->specs[user->side][user->key];
    user->call =
        (struct rlock__call){.kind = RLOCK__COMMAND, .spec = spec, .command.read = read_look};
    spec->ops->inspect(spec, &user->call.command.cmd);
    sim_user_begin(user);
}

/* Of a read/write lock those who lose their holds are not known by name: all of a side may. */
static void doom_side(struct sim_world *world, unsigned key, unsigned side)
{
    for (unsigned i = 0; i < world->config.n_clients * SIM_MAX_USERS; i++) {
        struct sim_user *user = &world->clients[i / SIM_MAX_USERS]->users[i % SIM_MAX_USERS];

        if (user->key == key) {
            user->holds[side].doomed |= user->holds[side].depth != 0;
            user->holds[side].doomed_valid = RLOCK__NEVER;
            user->seized |= user->calling && user->side == side;
        }
    }
}

/* The write side takes the writer's own reads with it. */
static void doom_seen(struct sim_user *breaker)
{
    struct sim_client *client = breaker->client;
    struct sim_world *world = client->world;

    if (world->config.other == NULL && world->config.units == 0) {
        sim_doom_owner(world, breaker->seen);
    } else {
        doom_side(world, breaker->key, 0);
    }
    if (world->config.other != NULL && breaker->side == 1) {
        doom_side(world, breaker->key, 1);
    }
    for (unsigned i = 0; i < SIM_MAX_USERS * SIM_SIDES; i++) {
        const struct sim_user *user = &client->users[i / SIM_SIDES];
        unsigned side = i % SIM_SIDES;
        bool is_seen = user->key == breaker->key && user->holds[side].depth != 0 &&
                       side <= breaker->side && sim_server_count(user, side) != 0;

        breaker->forced[i / SIM_SIDES][side] = is_seen ? user->holds[side].number : 0;
    }
}

void sim_force_open(struct sim_user *user)
{
    struct sim_world *world = user->client->world;
    struct rlock__spec *spec = user->client->specs[user->side][user->key];
    struct rlock__args args = {.seen = rlock__bytes_of(user->seen)};

    if (world->foreign.looks_held && sim_foreign_is_at(world, user->key)) {
        user->forcing = false;
        sim_user_plan(user, RLOCK__MS);
        return;
    }
    user->opened = false;
    user->call = (struct rlock__call){
        .kind = RLOCK__COMMAND, .spec = spec, .command.read = read_force, .command.once = true};
    spec->ops->force(spec, &args, &user->call.command.cmd);
    sim_trace(world, "client %u user %llu: forces %s, held by %s", user->client->index,
              (unsigned long long)user->owner.id, world->keys[user->key], user->seen);
    doom_seen(user);
    sim_user_begin(user);
}

/* The holds of this client that were forced open are lost at once, as rlock__holder_forced() does
 * it. */
static void lose(struct sim_client *client, const char *seen)
{
    for (const char *at = seen; (at = strstr(at, client->core.opts.uuid)) != NULL;) {
        at += RLOCK__UUID_LEN;
        if (*at == ':') {
            rlock__core_forced(&client->core, strtoull(at + 1, NULL, 10), sim_clock(client));
        }
    }
}

static void on_opened(struct sim_user *breaker)
{
    struct sim_client *client = breaker->client;

    if (!breaker->opened) {
        return;
    }
    lose(client, breaker->seen);
    for (unsigned i = 0; i < client->n_users * SIM_SIDES; i++) {
        const struct sim_user *user = &client->users[i / SIM_SIDES];
        const struct sim_hold *hold = &user->holds[i % SIM_SIDES];

        if (hold->depth != 0 && hold->number == breaker->forced[i / SIM_SIDES][i % SIM_SIDES] &&
            sim_valid_until(hold) != 0) {
            sim_violate(client->world, "client %u: a hold of %s that was forced open is valid",
                        client->index, client->world->keys[user->key]);
        }
    }
}

void sim_force_done(struct sim_user *user)
{
    struct sim_client *client = user->client;

    if (user->forcing) {
        on_opened(user);
    }
    user->forcing = !user->forcing && user->call.code == 0;
    if (!client->closed) {
        sim_user_plan(user, 1 + sim_random(client->world, 10 * RLOCK__MS));
    }
}
