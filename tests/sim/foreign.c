/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Somebody else's key under a name of ours: of a type that no lock has, or a hash that is none. It
 * stands there for a while, and goes. Whatever is called meanwhile:
 *   it stays as it is      nobody changes or deletes it, or gives it an end
 *   it is no lock          nothing is granted on it, and nobody takes it for somebody's and waits;
 *                          but a hash of one field that looks like an owner is somebody's lock
 *   nothing else is lost   and nobody's link, as ever
 * When it comes and goes, and what it is, comes from a stream of its own, so that seeds without it
 * are what they would be.
 */
#include <stdio.h>

#include "base/random.h"
#include "permits.h"
#include "world.h"

/* What stands there: the words that make it, behind the name. */
struct shape {
    const char *command, *words[8];
    enum { NO_HASH, NO_LOCK, A_LOCK } is;
};

#define LONG_FIELD                                                                                 \
    "a-field-that-is-longer-than-any-owner-that-there-can-be-whoever-made-it-and-however-long-"    \
    "its-"                                                                                         \
    "uuid-may-be-in-the-end-of-all-the-things-there-are:1"

static const struct shape shapes[] = {
    {"SET", {"text"}, NO_HASH},
    {"RPUSH", {"one", "two"}, NO_HASH},
    {"ZADD", {"1", "one"}, NO_HASH},
    {"HSET", {"x", "1"}, NO_LOCK},
    {"HSET", {"", ""}, NO_LOCK},
    {"HSET", {LONG_FIELD, "1"}, NO_LOCK},
    {"HSET", {"one:1", "1", "two:2", "2"}, NO_LOCK},
    {"HSET", {"a", "1", "b", "2", "c", "3"}, NO_LOCK},
    {"HSET", {"strange:1", "no number"}, A_LOCK},
};

/* What stands before the lock's name, with a colon and in braces, which locks have such a key, and
 * of what type it is when it is ours. */
static const struct {
    const char *prefix; /* "" the lock's own name */
    enum { ALL, FAIR, WITH_WRITERS, FENCED } of;
    enum sim_type type;
} names[] = {
    {"", ALL, SIM_HASH},
    {"redisson_lock_queue", FAIR, SIM_LIST},
    {"redisson_lock_timeout", FAIR, SIM_ZSET},
    {"rlock_fair", FAIR, SIM_HASH},
    {"rlock_fair_asks", FAIR, SIM_ZSET},
    {"rlock_writer_waits", WITH_WRITERS, SIM_STRING},
    {"redisson_lock_token", FENCED, SIM_STRING},
};

static int64_t draw(struct sim_world *world, int64_t n)
{
    return rlock__random_below(&world->foreign.random, n);
}

static bool is_name_of_kind(const struct sim_world *world, size_t name)
{
    switch (names[name].of) {
    case FAIR:
        return (world->config.kind->caps & RLOCK__CAP_QUEUES) != 0;
    case WITH_WRITERS:
        return world->config.prefer_writers;
    case FENCED:
        return world->config.kind == &rlock__fenced_ops;
    case ALL:
    default:
        return true;
    }
}

static enum sim_type type_of(const struct shape *shape)
{
    switch (shape->command[0]) {
    case 'S':
        return SIM_STRING;
    case 'R':
        return SIM_LIST;
    case 'Z':
        return SIM_ZSET;
    default:
        return SIM_HASH;
    }
}

/* ---- What it is ---- */

static void mix(uint64_t *sum, struct sim_view bytes)
{
    for (size_t i = 0; i < bytes.len; i++) {
        *sum = (*sum ^ (unsigned char)bytes.data[i]) * 1099511628211U;
    }
    *sum = (*sum ^ bytes.len) * 1099511628211U;
}

/* All that there is to it, as a number; 0 it is not there. */
static uint64_t look(const struct sim_world *world)
{
    const char *name = world->foreign.name;
    struct sim_key_info info;
    uint64_t sum = 14695981039346656037U;

    if (!sim_find_key(world, (struct sim_view){name, strlen(name)}, &info)) {
        return 0;
    }
    sum ^= (uint64_t)info.type ^ (uint64_t)(info.pttl_ms + 1);
    for (size_t i = 0; i < info.n_items; i++) {
        struct sim_item_info item = sim_key_item(&info, i);

        mix(&sum, item.name);
        mix(&sum, item.value);
    }
    return sum;
}

/* ---- Its life ---- */

static void put(struct sim_world *world, size_t name, const struct shape *shape)
{
    struct sim_foreign *foreign = &world->foreign;
    const char *words[11] = {shape->command, foreign->name};

    foreign->key = (unsigned)draw(world, world->config.n_keys);
    (void)snprintf(foreign->name, sizeof(foreign->name), name == 0 ? "%s%s" : "%s:{%s}",
                   names[name].prefix, world->keys[foreign->key]);
    for (size_t i = 0; i < 8 && shape->words[i] != NULL; i++) {
        words[i + 2] = shape->words[i];
    }
    foreign->at = world->now + 1 + draw(world, 3 * world->config.lease);
    if (world->now < world->open_until[foreign->key]) { /* a new key is made elsewhere then */
        return;
    }
    sim_by_hand(world, (const char *const[]){"DEL", foreign->name, NULL});
    if (name == 0 && world->config.units != 0) {
        sim_permits_delete(world, foreign->key);
    }
    sim_by_hand(world, words);
    foreign->stands = true;
    foreign->is_lock = name == 0;
    foreign->looks_held = shape->is == A_LOCK || world->config.kind == &rlock__setnx_ops;
    foreign->since = world->now;
    foreign->was = look(world);
    world->queues[foreign->key].meddled = true;
    world->entries[foreign->key].holder[0] = '\0'; /* not by a release */
    if (foreign->is_lock) {
        sim_doom(world, (int)foreign->key);
    } else {
        sim_doom_calls(world, foreign->key);
    }
}

static void come(struct sim_world *world)
{
    size_t name = (size_t)draw(world, 2) * (size_t)draw(world, sizeof(names) / sizeof(names[0]));
    const struct shape *shape = &shapes[draw(world, sizeof(shapes) / sizeof(shapes[0]))];

    if (is_name_of_kind(world, name) && (name == 0 || type_of(shape) != names[name].type)) {
        put(world, name, shape);
    } else {
        world->foreign.at = world->now + 1 + draw(world, world->config.lease);
    }
}

void sim_foreign_go(struct sim_world *world)
{
    struct sim_foreign *foreign = &world->foreign;

    if (foreign->stands) {
        sim_by_hand(world, (const char *const[]){"DEL", foreign->name, NULL});
    }
    foreign->at = world->now + 1 + draw(world, 10 * world->config.lease);
}

void sim_foreign_start(struct sim_world *world)
{
    world->foreign.random = (world->seed + 1) * UINT64_C(0x9E3779B97F4A7C15);
    (void)draw(world, 1);
    world->foreign.at = world->config.faults != 0 && world->config.failover_us == 0 &&
                                !sim_latch_is(world) &&
                                (draw(world, 10) == 0 || world->only.foreign)
                            ? draw(world, 10 * world->config.lease)
                            : RLOCK__NEVER;
}

void sim_foreign_step(struct sim_world *world)
{
    struct sim_foreign *foreign = &world->foreign;

    if (world->healed || world->server_down || world->now < foreign->at) {
        return;
    }
    if (foreign->stands) {
        sim_foreign_go(world);
    } else {
        come(world);
    }
}

void sim_foreign_gone(struct sim_world *world, const char *name)
{
    if (world->foreign.stands && (name == NULL || strcmp(name, world->foreign.name) == 0)) {
        world->foreign.stands = false;
        sim_note_free(world, 0, world->foreign.key, false); /* since now */
        sim_note_free(world, 1, world->foreign.key, false);
        world->queues[world->foreign.key].meddled = true;
        world->entries[world->foreign.key].holder[0] = '\0';
    }
}

/* ---- What must be ---- */

bool sim_foreign_is_at(const struct sim_world *world, unsigned key)
{
    return world->foreign.stands && world->foreign.key == key;
}

void sim_foreign_check(struct sim_world *world)
{
    const struct sim_foreign *foreign = &world->foreign;

    if (foreign->stands && look(world) != foreign->was) {
        sim_violate(world, "%s is somebody else's, and was changed", foreign->name);
    }
}

/* Whether all that the call knows of the key is from when it stood there, and on one node. */
static bool knows_it_alone(const struct sim_user *user)
{
    const struct sim_world *world = user->client->world;
    const struct sim_foreign *foreign = &world->foreign;

    return foreign->stands && foreign->is_lock && user->key == foreign->key &&
           user->call.kind == RLOCK__ACQUIRE && user->began_at > foreign->since &&
           user->began_at >= world->open_until[user->key];
}

void sim_foreign_call(const struct sim_user *user)
{
    /* it waits for a hold of its own client, and asked nobody */
    bool waits_here =
        strncmp(user->texts.facts.holder, user->client->core.opts.uuid, RLOCK__UUID_LEN) == 0;

    if (user->calling && knows_it_alone(user) && user->call.acquire.contended && !waits_here &&
        !user->client->world->foreign.looks_held) {
        sim_violate(user->client->world, "client %u: takes %s for a lock, which is none",
                    user->client->index, user->client->world->keys[user->key]);
    }
}

void sim_foreign_done(const struct sim_user *user)
{
    if (knows_it_alone(user) && user->call.code == 0) {
        sim_violate(user->client->world, "client %u: is granted %s, which is no lock",
                    user->client->index, user->client->world->keys[user->key]);
    }
}
