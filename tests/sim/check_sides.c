/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The invariants of a lock with two sides:
 *   many read, or one writes  nobody believes a hold valid while another believes that it writes
 *   the mode tells            "write" stands with one writer's field, "read" with none
 *   the hash ends with them   no level of a reader ends later than the hash; and that of readers
 *                             alone ends with the last of their levels
 *   no upgrade                nobody begins to write while it reads; who writes may read
 *   dead readers delay nobody a writer may enter when no reader's level lives, whatever the hash
 *                             says
 */
#include <stdio.h>
#include <stdlib.h>

#include "world.h"

static struct sim_view view_of(const char *text)
{
    return (struct sim_view){text, strlen(text)};
}

bool sim_ends_with(struct sim_view name, const char *end)
{
    return name.len > strlen(end) &&
           memcmp(name.data + name.len - strlen(end), end, strlen(end)) == 0;
}

static bool equals(struct sim_view view, const char *text)
{
    return view.len == strlen(text) && memcmp(view.data, text, view.len) == 0;
}

/* ---- What is believed ---- */

static bool believes(const struct sim_user *user, unsigned side)
{
    const struct sim_hold *hold = &user->holds[side];

    return hold->depth != 0 && !hold->doomed && hold->view != NULL &&
           atomic_load(&hold->view->valid_until) > sim_clock(user->client);
}

static void meet(struct sim_world *world, const struct sim_user *user,
                 const struct sim_user *writers[static SIM_KEYS])
{
    const struct sim_user *writer = writers[user->key];

    if (writer != NULL && writer != user && (believes(user, 0) || believes(user, 1))) {
        sim_violate(world, "client %u user %llu and client %u user %llu believe to hold %s",
                    writer->client->index, (unsigned long long)writer->owner.id,
                    user->client->index, (unsigned long long)user->owner.id,
                    world->keys[user->key]);
    }
}

void sim_check_sides(struct sim_world *world)
{
    const struct sim_user *writers[SIM_KEYS] = {NULL};
    unsigned n = world->config.n_clients * SIM_MAX_USERS;
    bool any = false;

    for (unsigned i = 0; i < n; i++) {
        const struct sim_user *user = &world->clients[i / SIM_MAX_USERS]->users[i % SIM_MAX_USERS];

        if (believes(user, 1)) {
            writers[user->key] = user;
            any = true;
        }
    }
    for (unsigned i = 0; any && i < n; i++) {
        meet(world, &world->clients[i / SIM_MAX_USERS]->users[i % SIM_MAX_USERS], writers);
    }
}

void sim_check_taken_side(const struct sim_user *user)
{
    struct sim_world *world = user->client->world;
    const struct rlock__call *call = &user->call;
    bool writing = user->side == 1;

    if (writing && call->code == 0 && call->count == 1 && believes(user, 0)) {
        sim_violate(world, "client %u: began to write %s while it reads", user->client->index,
                    world->keys[user->key]);
    }
    /* a call that began as a level more of a write hold may end after its second thread released */
    if (writing && call->count == 0 && call->number != 0 && user->holds[1].depth == 0 &&
        call->number != user->holds[1].number && believes(user, 0)) {
        sim_violate(world, "client %u: asks to write %s while it reads", user->client->index,
                    world->keys[user->key]);
    }
    if (call->code == RLOCK_EDEADLOCK &&
        (!writing || user->holds[0].depth == 0 || user->holds[1].depth != 0)) {
        sim_violate(world, "client %u: would not deadlock on %s", user->client->index,
                    world->keys[user->key]);
    }
    if (!writing && call->code == RLOCK_EBUSY && call->acquire.attempts != 0 &&
        !user->doomed_call && believes(user, 1)) {
        sim_violate(world, "client %u: writes %s, and may not read it", user->client->index,
                    world->keys[user->key]);
    }
}

/* ---- What the server has ---- */

static long count_of(struct sim_view value)
{
    char digits[24];

    (void)snprintf(digits, sizeof(digits), "%.*s", (int)value.len, value.data);
    return strtol(digits, NULL, 10);
}

/* What the fields say. */
struct sides {
    char mode; /* 'r', 'w'; 0 neither */
    unsigned writers, fields;
    int64_t readers_ttl; /* the longest of all; -2 none lives */
    int64_t kept_ttl;    /* the same without the readers whose client releases them */
};

static struct sides read_sides(const struct sim_world *world, const struct sim_key_info *info)
{
    struct sides sides = {.readers_ttl = -2, .kept_ttl = -2};

    for (size_t i = 0; i < info->n_items; i++) {
        struct sim_item_info item = sim_key_item(info, i);

        if (equals(item.name, "mode")) {
            sides.mode = equals(item.value, "read") ? 'r' : equals(item.value, "write") ? 'w' : 0;
            continue;
        }
        sides.fields++;
        if (sim_ends_with(item.name, ":write")) {
            sides.writers++;
        } else {
            int64_t ttl = sim_reader_ttl(world, info->name, item.name, count_of(item.value));

            sides.readers_ttl = rlock__max(sides.readers_ttl, ttl);
            if (!sim_is_given_up(world, item.name)) {
                sides.kept_ttl = rlock__max(sides.kept_ttl, ttl);
            }
        }
    }
    return sides;
}

static bool readers_stand_back(const struct sim_world *world, unsigned key)
{
    struct sim_key_info info;
    char name[64];

    (void)snprintf(name, sizeof(name), "rlock_writer_waits:{%s}", world->keys[key]);
    return sim_find_key(world, view_of(name), &info);
}

/* Who left while the slot was open could not see how long the others stay; nor could who was told
 * so, by the time that it ran. */
static bool was_open(const struct sim_world *world, unsigned key)
{
    return world->now <
           rlock__max(world->open_until[key], world->asked_at[key]) + world->config.lease;
}

void sim_look_at_sides(struct sim_world *world, unsigned key)
{
    struct sides sides = {.readers_ttl = -2, .kept_ttl = -2};
    struct sim_key_info info;

    if (sim_find_key(world, view_of(world->keys[key]), &info)) {
        sides = read_sides(world, &info);
        if (sides.mode == 0 || sides.fields == 0 || sides.writers != (sides.mode == 'w')) {
            sim_violate(world, "%s has mode %c, %u writers, %u fields", world->keys[key],
                        sides.mode == 0 ? '-' : sides.mode, sides.writers, sides.fields);
        }
        /* a writer may hand its hold over once the release of its own read hold is on its way */
        if (sides.kept_ttl > info.pttl_ms) {
            sim_violate(world, "%s ends in %lld ms, a reader's lease in %lld", world->keys[key],
                        (long long)info.pttl_ms, (long long)sides.kept_ttl);
        }
        if (sides.mode == 'r' && rlock__max(sides.readers_ttl, 0) < info.pttl_ms - 2 &&
            !was_open(world, key)) {
            sim_violate(world, "%s ends in %lld ms, its last reader's lease in %lld",
                        world->keys[key], (long long)info.pttl_ms, (long long)sides.readers_ttl);
        }
    }
    sim_note_free(world, 0, key, sides.mode != 'w' && !readers_stand_back(world, key));
    sim_note_free(world, 1, key, sides.mode != 'w' && sides.readers_ttl == -2);
}
