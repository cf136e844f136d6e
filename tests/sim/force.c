/* SPDX-License-Identifier: Apache-2.0 */
/* Opening a lock by force, as the front does it: looks who holds it, then deletes exactly that
 * one's lock. */
#include <stdio.h>
#include <stdlib.h>

#include "world.h"

static int read_look(struct rlock__call *call, const struct rlock__reply *reply)
{
    struct sim_user *user = call->payload;
    struct rlock_info info = {0};
    struct rlock__buf seen = {0};

    call->spec->ops->read_inspect(reply, &info, &seen);
    (void)snprintf(user->seen, sizeof(user->seen), "%.*s", (int)seen.len, seen.data);
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

    if (world->config.other != NULL || (world->config.kind->caps & RLOCK__CAP_QUEUES) != 0) {
        sim_user_plan(user, RLOCK__MS); /* who holds those is more than one name */
        return;
    }
    user->side = 0;
    user->key = (unsigned)sim_random(world, world->config.n_keys);
    if (world->foreign.looks_held && sim_foreign_is_at(world, user->key)) {
        sim_user_plan(user, RLOCK__MS); /* that would open it, rightly */
        return;
    }
    spec = user->client->specs[0][user->key];
    user->call = (struct rlock__call){.kind = RLOCK__COMMAND, .spec = spec, .read = read_look};
    spec->ops->inspect(spec, &user->call.cmd);
    sim_user_begin(user);
}

void sim_force_open(struct sim_user *user)
{
    struct sim_world *world = user->client->world;
    struct rlock__spec *spec = user->client->specs[0][user->key];
    struct rlock__args args = {.seen = rlock__bytes_of(user->seen)};

    if (world->foreign.looks_held && sim_foreign_is_at(world, user->key)) {
        user->forcing = false;
        sim_user_plan(user, RLOCK__MS);
        return;
    }
    user->opened = false;
    user->call = (struct rlock__call){
        .kind = RLOCK__COMMAND, .spec = spec, .read = read_force, .once = true};
    spec->ops->force(spec, &args, &user->call.cmd);
    sim_trace(world, "client %u user %llu: forces %s, held by %s", user->client->index,
              (unsigned long long)user->owner.id, world->keys[user->key], user->seen);
    sim_doom_owner(world, user->seen);
    sim_user_begin(user);
}

/* A hold of this client that was forced open is lost at once. */
static void on_opened(struct sim_user *breaker)
{
    struct sim_client *client = breaker->client;
    uint64_t number = strtoull(breaker->seen + RLOCK__UUID_LEN + 1, NULL, 10);

    if (!breaker->opened || strncmp(breaker->seen, client->core.uuid, RLOCK__UUID_LEN) != 0) {
        return;
    }
    rlock__core_forced(&client->core, number, sim_clock(client));
    for (unsigned i = 0; i < client->n_users; i++) {
        const struct sim_hold *hold = &client->users[i].holds[0];

        if (hold->depth != 0 && hold->number == number && sim_valid_until(hold) != 0) {
            sim_violate(client->world, "client %u: a hold of %s that was forced open is valid",
                        client->index, client->world->keys[client->users[i].key]);
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
