/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The invariants, looked at after every step:
 *   valid means held     a hold that its client believes valid is on the server (so no two are
 * valid at once), unless the server lost it, and then the belief is never prolonged lost is told a
 * hold past its validity is reported lost within 50 ms, and not valid again refused is clean     an
 * owner that was refused, or unlocked, is never on the server again counts are exact     what a
 * call leaves on the server is the count that it returns leases end           every lock has an
 * end, no later than the longest lease from now calls return         by their deadline and 50 ms
 *   free locks are taken nobody sleeps past a free lock longer than the re-check interval, and on a
 * perfect network no longer than some round trips nothing is left      at the end
 */
#include <stdio.h>
#include <stdlib.h>

#include "world.h"

#define SLACK (50 * RLOCK__MS)

static struct sim_view view_of(const char *text)
{
    return (struct sim_view){text, strlen(text)};
}

static void owner_name(const struct sim_client *client, uint64_t number,
                       char out[static RLOCK__OWNER_SIZE])
{
    (void)snprintf(out, RLOCK__OWNER_SIZE, "%s:%llu", client->core.uuid,
                   (unsigned long long)number);
}

/* The owner's count on the server; 0 it is not there. */
static long server_count(const struct sim_user *user)
{
    struct sim_world *world = user->client->world;
    char owner[RLOCK__OWNER_SIZE], digits[24];
    struct sim_view value;

    owner_name(user->client, user->number, owner);
    if (!sim_server_find_field(world->server, view_of(world->keys[user->key]), view_of(owner),
                               &value)) {
        return 0;
    }
    (void)snprintf(digits, sizeof(digits), "%.*s", (int)value.len, value.data);
    return strtol(digits, NULL, 10);
}

static int64_t valid_until(const struct sim_user *user)
{
    return user->claim != NULL ? atomic_load(&user->claim->valid_until) : 0;
}

/* ---- Holds ---- */

static void check_hold(struct sim_user *user)
{
    struct sim_client *client = user->client;
    struct sim_world *world = client->world;
    int64_t now = sim_clock(client), until = valid_until(user);

    if (user->depth == 0) {
        return;
    }
    if (user->lost && until != 0) {
        sim_violate(world, "client %u: a lost hold of %s is valid again", client->index,
                    world->keys[user->key]);
    }
    if (user->doomed) {
        if (until > user->doomed_valid) {
            sim_violate(world, "client %u: a hold of %s that the server lost was prolonged",
                        client->index, world->keys[user->key]);
        }
        return;
    }
    if (until > now && server_count(user) == 0) {
        sim_violate(
            world,
            "client %u user %llu: believes to hold %s for %lld us more, the server disagrees",
            client->index, (unsigned long long)user->owner.id, world->keys[user->key],
            (long long)(until - now));
    }
    if (until != 0 && !user->lost && !sim_is_paused(client) && now > until + SLACK &&
        client->disturbed < world->now) {
        sim_violate(world, "client %u: the loss of %s was not reported", client->index,
                    world->keys[user->key]);
    }
}

static void check_call(struct sim_user *user)
{
    struct sim_client *client = user->client;
    const struct rlock__call *call = &user->call;
    int64_t now = sim_clock(client);

    if (user->calling && !sim_is_paused(client) && client->disturbed < client->world->now - SLACK &&
        call->deadline != RLOCK__NEVER && call->deadline != 0 &&
        now > call->deadline + SLACK + RLOCK__MS) {
        sim_violate(client->world, "client %u: a call is %lld us past its deadline", client->index,
                    (long long)(now - call->deadline));
    }
}

void sim_doom(struct sim_world *world, int key)
{
    for (unsigned i = 0; i < world->config.n_clients; i++) {
        struct sim_client *client = world->clients[i];

        for (unsigned j = 0; client != NULL && j < client->n_users; j++) {
            struct sim_user *user = &client->users[j];

            if (key < 0 || user->key == (unsigned)key) {
                user->doomed_call = user->calling;
                if (user->depth != 0 && !user->doomed) {
                    user->doomed = true;
                    user->doomed_valid = sim_clock(client) + world->config.lease + 20 * RLOCK__MS;
                }
            }
        }
    }
}

/* ---- Waiters ---- */

static int64_t patience(const struct sim_world *world)
{
    if (world->config.faults ==
        0) { /* the message, the attempt, its reply; and as much again for whom it beat */
        int64_t spin = (world->config.kind->caps & RLOCK__CAP_SPINS) != 0 ? 2 * 128 * RLOCK__MS : 0;

        return 8 * world->config.delay_max + 20 * RLOCK__MS + spin;
    }
    return RLOCK__RECHECK_US + 2 * RLOCK__SECOND;
}

/* Whether somebody who could take the key sleeps; and until when that was excused. */
static bool somebody_waits(const struct sim_world *world, unsigned key, int64_t *ret_excused)
{
    bool waits = false;

    *ret_excused = 0;
    for (unsigned i = 0; i < world->config.n_clients; i++) {
        const struct sim_client *client = world->clients[i];

        *ret_excused = rlock__max(*ret_excused, client->disturbed);
        for (unsigned j = 0; j < client->n_users; j++) {
            const struct sim_user *user = &client->users[j];
            bool asleep = user->call.step == RLOCK__SLEEPING ||
                          user->call.step == RLOCK__SUBSCRIBING || user->call.step == RLOCK__QUEUED;

            if (user->calling && user->key == key && user->call.kind == RLOCK__ACQUIRE && asleep) {
                waits = true;
                *ret_excused = rlock__max(*ret_excused, user->began_at);
            }
        }
    }
    return waits;
}

static void check_waiters(struct sim_world *world, unsigned key)
{
    int64_t excused, since = world->free_since[key];

    if (since != RLOCK__NEVER && world->now - since > patience(world) &&
        somebody_waits(world, key, &excused) && world->now - excused > patience(world)) {
        sim_violate(world, "%s is free for %lld us, and somebody sleeps", world->keys[key],
                    (long long)(world->now - since));
    }
}

/* ---- The server ---- */

static void check_dead(struct sim_world *world, const struct sim_key_info *key)
{
    for (size_t i = 0; i < key->n_items; i++) {
        struct sim_item_info item = sim_key_item(key, i);
        struct sim_dead *dead = NULL;

        HASH_FIND(hh, world->dead, item.name.data, item.name.len, dead);
        if (dead != NULL) {
            sim_violate(world, "%s holds %.*s on the server", dead->owner, (int)key->name.len,
                        key->name.data);
        }
    }
}

static void look(struct sim_world *world, unsigned key)
{
    struct sim_key_info info;

    if (!sim_server_find_key(world->server, view_of(world->keys[key]), &info)) {
        if (world->free_since[key] == RLOCK__NEVER) {
            world->free_since[key] = world->now;
        }
        return;
    }
    world->free_since[key] = RLOCK__NEVER;
    if (info.pttl_ms < 0 || info.pttl_ms > 2 * world->config.lease / RLOCK__MS) {
        sim_violate(world, "%s has a TTL of %lld ms", world->keys[key], (long long)info.pttl_ms);
    }
    if (info.n_items != 1) {
        sim_violate(world, "%s has %zu holders", world->keys[key], info.n_items);
    }
    check_dead(world, &info);
}

void sim_check_server(struct sim_world *world)
{
    for (unsigned i = 0; i < world->config.n_keys; i++) {
        look(world, i);
    }
}

void sim_check_step(struct sim_world *world)
{
    for (unsigned i = 0; i < world->config.n_keys; i++) {
        look(world, i);
        check_waiters(world, i);
    }
    for (unsigned i = 0; i < world->config.n_clients; i++) {
        struct sim_client *client = world->clients[i];

        for (unsigned j = 0; j < client->n_users; j++) {
            check_hold(&client->users[j]);
            check_call(&client->users[j]);
        }
    }
}

/* ---- Calls ---- */

void sim_declare_dead(struct sim_world *world, const struct sim_client *client, uint64_t number,
                      const char *why)
{
    struct sim_dead *dead = calloc(1, sizeof(*dead));
    struct sim_dead *old = NULL;

    owner_name(client, number, dead->owner);
    (void)snprintf(dead->why, sizeof(dead->why), "%s", why);
    HASH_FIND_STR(world->dead, dead->owner, old);
    if (old != NULL) {
        free(dead);
        return;
    }
    HASH_ADD_STR(world->dead, owner, dead);
}

static void check_refused(struct sim_user *user)
{
    struct sim_client *client = user->client;
    const struct rlock__call *call = &user->call;

    if (user->depth == 0 && call->number != 0) {
        sim_declare_dead(client->world, client, call->number, "refused");
    }
    sim_check_server(client->world);
}

/* Tokens grow with every hold, and stay within one. */
static void check_token(struct sim_user *user)
{
    struct sim_world *world = user->client->world;
    uint64_t token = user->call.token, *last = &world->last_token[user->key];

    if (world->config.kind != &rlock__fenced_ops || user->call.kind != RLOCK__ACQUIRE) {
        return;
    }
    if (user->call.count == 1 ? token <= *last && !user->doomed_call : token != user->token) {
        sim_violate(world, "client %u: token %llu of %s after %llu", user->client->index,
                    (unsigned long long)token, world->keys[user->key], (unsigned long long)*last);
    }
    user->token = token;
    *last = token > *last ? token : *last;
}

static void check_granted(struct sim_user *user)
{
    struct sim_client *client = user->client;
    long count = server_count(user);

    check_token(user);
    if (user->doomed_call && count == 0 &&
        !user->doomed) { /* granted, then lost before the answer came */
        user->doomed = true;
        user->doomed_valid = valid_until(user);
        return;
    }
    if (!user->doomed_call && !user->doomed && !user->fuzzy && client->may_kill &&
        count != (long)user->call.count && valid_until(user) > sim_clock(client)) {
        sim_violate(client->world, "client %u: count %u of %s returned, the server has %ld",
                    client->index, user->call.count, client->world->keys[user->key], count);
    }
}

void sim_check_done(struct sim_user *user)
{
    struct sim_client *client = user->client;
    const struct rlock__call *call = &user->call;
    bool taking = call->kind == RLOCK__ACQUIRE;

    switch (call->code) {
    case RLOCK_OK:
        if (taking || user->depth != 0) {
            check_granted(user);
        } else if (client->may_kill) {
            sim_declare_dead(client->world, client, user->number, "released");
            sim_check_server(client->world);
        }
        break;
    case RLOCK_EBUSY:
    case RLOCK_ETIMEDOUT:
    case RLOCK_ECANCELED:
    case RLOCK_ECONN:
        if (taking) {
            check_refused(user);
        }
        break;
    case RLOCK_EINDOUBT:
        user->fuzzy = true;
        if (client->world->config.faults == 0 &&
            8 * client->world->config.delay_max < RLOCK__CANCEL_GRACE_US) {
            sim_violate(client->world, "client %u: in doubt on a perfect network", client->index);
        }
        break;
    case RLOCK_EREACQUIRE:
        if (client->world->config.kind != &rlock__nonreentrant_ops || user->depth == 0) {
            sim_violate(client->world, "client %u: refused as if it held %s already", client->index,
                        client->world->keys[user->key]);
        }
        break;
    case RLOCK_ELOST:
        if (!user->doomed && !user->lost && !user->doomed_call && valid_until(user) != 0) {
            sim_violate(client->world, "client %u: lost %s, which nobody took", client->index,
                        client->world->keys[user->key]);
        }
        break;
    default:
        break;
    }
    user->doomed_call = false;
}

/* The next key that must not stay; tokens stay for ever. */
static bool next_lock_key(const struct sim_world *world, struct sim_key_info *info)
{
    static const char token[] = "redisson_lock_token:";

    while (sim_server_next_key(world->server, info)) {
        if (info->name.len < sizeof(token) ||
            memcmp(info->name.data, token, sizeof(token) - 1) != 0) {
            return true;
        }
    }
    return false;
}

void sim_check_end(struct sim_world *world)
{
    struct sim_key_info info = {0};
    int64_t left = 0;

    while (next_lock_key(world, &info)) {
        left = rlock__max(left, info.pttl_ms);
        if (world->config.faults == 0) {
            sim_violate(world, "%.*s is left at the end, held by %.*s", (int)info.name.len,
                        info.name.data, (int)sim_key_item(&info, 0).name.len,
                        sim_key_item(&info, 0).name.data);
        }
    }
    for (unsigned i = 0; i < world->config.n_clients; i++) {
        struct sim_client *client = world->clients[i];

        if (!rlock__core_is_settled(&client->core) || client->core.places != NULL) {
            sim_violate(world, "client %u is not settled 10 s after its close", i);
        }
    }
    world->now += (left + 2) * RLOCK__MS;
    sim_server_set_time(world->server, world->now);
    info = (struct sim_key_info){0};
    if (left > 2 * world->config.lease / RLOCK__MS || next_lock_key(world, &info)) {
        sim_violate(world, "%.*s is left one lease after the end", (int)info.name.len,
                    info.name.data);
    }
}
