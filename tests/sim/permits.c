/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The permits of a semaphore on the server. None is lost, and none is made: after every step, the
 * free permits and the permits that are out are together as many as the semaphore has.
 */
#include <stdio.h>

#include "lock/permits.h"

#include "permits.h"
#include "world.h"

static const char *set_of(const struct sim_world *world)
{
    return world->config.kind == &rlock__semaphore_ops ? "rlock-permits" : "timeout";
}

static bool is_for(const struct sim_world *world)
{
    return (world->config.kind->caps & RLOCK__CAP_UNITS) != 0;
}

static int64_t clock_ms(const struct sim_world *world, const char *key)
{
    const struct sim_view name = {key, strlen(key)};
    unsigned node = sim_holder_of(world, name);

    return sim_server_clock_us(world->nodes[node != SIM_NODES ? node : 0].server) / 1000;
}

static bool find_set(const struct sim_world *world, const char *key, struct sim_key_info *ret_info)
{
    char name[SIM_OWNER_SIZE];

    (void)snprintf(name, sizeof(name), "{%s}:%s", key, set_of(world));
    *ret_info = (struct sim_key_info){.n_items = 0};
    return sim_find_key(world, (struct sim_view){name, strlen(name)}, ret_info);
}

uint32_t sim_permits_of(const struct sim_world *world, unsigned key, const char *owner,
                        int64_t *ret_left_ms)
{
    unsigned char permit[RLOCK__PERMIT_LEN];
    const int64_t now = clock_ms(world, world->keys[key]);
    struct sim_key_info set;
    uint32_t n = 0;

    *ret_left_ms = 0;
    rlock__permit(rlock__bytes_of(owner), permit);
    for (size_t i = 0; find_set(world, world->keys[key], &set) && i < set.n_items; i++) {
        const struct sim_item_info item = sim_key_item(&set, i);
        const int64_t left = (int64_t)item.score - now;

        if (left > 0 && memcmp(item.name.data, permit, RLOCK__PERMIT_OWNER_LEN) == 0) {
            *ret_left_ms = n == 0 || left < *ret_left_ms ? left : *ret_left_ms;
            n++;
        }
    }
    return n;
}

long sim_permits_levels(const struct sim_user *user, const char *owner)
{
    const struct rlock__hold *hold = sim_find_hold(user->client, user->holds[0].number);
    int64_t left_ms;
    const uint32_t n = sim_permits_of(user->client->world, user->key, owner, &left_ms);
    uint32_t levels = 0;

    if (hold == NULL || rlock__units_of(hold) == NULL) {
        return n;
    }
    while (levels < hold->count && rlock__hold_units(hold, levels) < n) {
        levels++;
    }
    return rlock__hold_units(hold, levels) >= n ? levels : levels + n;
}

bool sim_permits_number(const struct sim_world *world, unsigned key, int64_t *ret_free)
{
    const struct sim_view name = {world->keys[key], strlen(world->keys[key])};
    struct sim_key_info info = {.n_items = 0};
    char digits[24];

    if (!sim_find_key(world, name, &info) || info.type != SIM_STRING) {
        return false;
    }
    (void)snprintf(digits, sizeof(digits), "%.*s", (int)sim_key_item(&info, 0).value.len,
                   sim_key_item(&info, 0).value.data);
    *ret_free = strtoll(digits, NULL, 10);
    return true;
}

/* The owner of a permit, for texts; empty if it is of no client that lives. */
static void name_owner(const struct sim_world *world, struct sim_view permit,
                       char out[static SIM_OWNER_SIZE])
{
    unsigned char first[RLOCK__PERMIT_LEN];
    uint64_t number = 0;

    out[0] = '\0';
    for (size_t i = 9; i < RLOCK__PERMIT_OWNER_LEN; i++) {
        number = number * 256 + (unsigned char)permit.data[i];
    }
    for (unsigned i = 0; i < world->config.n_clients && world->clients[i] != NULL; i++) {
        char owner[SIM_OWNER_SIZE];

        (void)snprintf(owner, sizeof(owner), "%s:%llu", world->clients[i]->core.opts.uuid,
                       (unsigned long long)number);
        rlock__permit(rlock__bytes_of(owner), first);
        if (memcmp(first, permit.data, RLOCK__PERMIT_OWNER_LEN) == 0) {
            (void)snprintf(out, SIM_OWNER_SIZE, "%s", owner);
        }
    }
}

static void check_dead(struct sim_world *world, unsigned key, struct sim_view permit)
{
    struct sim_dead *dead = NULL;
    char owner[SIM_OWNER_SIZE];

    name_owner(world, permit, owner);
    HASH_FIND(hh, world->dead, owner, strlen(owner), dead);
    if (dead != NULL) {
        sim_violate(world, "%s has a permit of %s on the server", owner, world->keys[key]);
    }
}

void sim_permits_look(struct sim_world *world, unsigned key)
{
    const int64_t now = clock_ms(world, world->keys[key]);
    const int64_t longest = 2 * world->config.lease / RLOCK__MS;
    struct sim_key_info set;
    int64_t free, units, out = 0;
    bool has_set = find_set(world, world->keys[key], &set);

    for (size_t i = 0; has_set && i < set.n_items; i++) {
        const struct sim_item_info item = sim_key_item(&set, i);

        if ((int64_t)item.score > now) {
            out++;
            check_dead(world, key, item.name);
        }
        if ((int64_t)item.score > now + longest) {
            sim_violate(world, "a permit of %s ends in %lld ms", world->keys[key],
                        (long long)item.score - now);
        }
    }
    if (has_set && world->config.kind == &rlock__semaphore_ops && set.pttl_ms >= 0) {
        sim_violate(world, "the record of %s ends in %lld ms", world->keys[key],
                    (long long)set.pttl_ms);
    }
    if (!sim_permits_number(world, key, &free)) {
        sim_peer_forgets(world, world->keys[key]);
        sim_note_free(world, 0, key, out == 0);
        return;
    }
    units = world->config.units - world->peer_units[key];
    /* A call may want two: it waits while there is only one. It may get some that are over before
     * it knows, and try again. */
    if (free != world->free_permits[key]) {
        sim_note_free(world, 0, key, false);
    }
    world->free_permits[key] = free;
    sim_note_free(world, 0, key, units - out >= (world->config.units > 1 ? 2 : 1));
    if (free < 0) {
        sim_violate(world, "%s has %lld free permits", world->keys[key], (long long)free);
    }
    if (free + (int64_t)set.n_items != units && !world->move.timer.set) {
        sim_violate(world, "%s has %lld free permits, and %zu are out: these are not %lld",
                    world->keys[key], (long long)free, set.n_items, (long long)units);
    }
}

void sim_permits_delete(struct sim_world *world, unsigned key)
{
    char name[SIM_OWNER_SIZE];

    (void)snprintf(name, sizeof(name), "{%s}:%s", world->keys[key], set_of(world));
    sim_by_hand(world, (const char *const[]){"DEL", name, NULL});
}

/* Whether each permit that is out is a text's. */
bool sim_permits_are_texts(const struct sim_world *world, const struct sim_key_info *info)
{
    bool are_texts = is_for(world);

    for (size_t i = 0; are_texts && info->type == SIM_ZSET && i < info->n_items; i++) {
        char owner[SIM_OWNER_SIZE];

        name_owner(world, sim_key_item(info, i).name, owner);
        are_texts = owner[0] == '\0';
    }
    return are_texts;
}

bool sim_permits_are_free(const struct sim_world *world, const struct sim_key_info *info,
                          int64_t *inout_left_ms)
{
    unsigned key = is_for(world) ? sim_key_of(world, info->name) : SIM_KEYS;
    bool are_free = true;
    int64_t now;

    if (key == SIM_KEYS) {
        return false;
    }
    now = clock_ms(world, world->keys[key]);
    for (size_t i = 0; info->type == SIM_ZSET && i < info->n_items; i++) {
        const int64_t left = (int64_t)sim_key_item(info, i).score - now;

        are_free = are_free && left <= 0;
        *inout_left_ms = rlock__max(*inout_left_ms, left);
    }
    return are_free && info->type != SIM_HASH;
}
