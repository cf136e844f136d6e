/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The invariants, looked at after every step:
 *   valid means held     a hold that its client believes valid is on the server (so no two are
 *                        valid at once), unless the server lost it, and then the belief is never
 *                        prolonged
 *   lost is told         a hold past its validity is reported lost within 50 ms, and is not valid
 *                        again
 *   refused is clean     an owner that was refused, or unlocked, is never on the server again
 *   counts are exact     what a call leaves on the server is the count that it returns
 *   leases end           every lock has an end, no later than the longest lease from now
 *   calls return         by the end of their wait, the time for an answer, and 50 ms
 *   free locks are taken nobody sleeps past a free lock longer than the re-check interval, and on a
 *                        perfect network no longer than some round trips
 *   nothing is left      at the end
 */
#include <stdio.h>
#include <stdlib.h>
#include <utlist.h>

#include "permits.h"
#include "world.h"

#define SLACK (50 * RLOCK__MS)
#define RESERVED_MS 6400             /* twice the longest reservation: the clock may be set back */
#define TRIPS 16                     /* ways, within which a call is connected and answered */
#define CANCEL_MOST (30 * RLOCK__MS) /* what answers before that is waited for */

static struct sim_view view_of(const char *text)
{
    return (struct sim_view){text, strlen(text)};
}

/* The field of a number's hold. */
static void owner_name(const struct sim_client *client, unsigned side, uint64_t number,
                       char out[static RLOCK__OWNER_SIZE + 6])
{
    (void)snprintf(out, RLOCK__OWNER_SIZE + 6, "%s:%llu%s", client->core.opts.uuid,
                   (unsigned long long)number, side == 1 ? ":write" : "");
}

/* The owner's count on the server; 0 it is not there, or nothing keeps it there. */
long sim_server_count(const struct sim_user *user, unsigned side)
{
    struct sim_world *world = user->client->world;
    struct sim_view value, key = view_of(world->keys[user->key]);
    char owner[RLOCK__OWNER_SIZE + 6], digits[24];
    long count;

    owner_name(user->client, side, user->holds[side].number, owner);
    if ((world->config.kind->caps & RLOCK__CAP_UNITS) != 0) {
        return sim_permits_levels(user, owner);
    }
    if (!sim_find_field(world, key, view_of(owner), &value)) {
        return 0;
    }
    if (world->config.kind == &rlock__setnx_ops) { /* the client alone counts its levels */
        const struct rlock__hold *hold = sim_find_hold(user->client, user->holds[side].number);

        return hold != NULL && hold->count > 0 ? (long)hold->count : 1;
    }
    (void)snprintf(digits, sizeof(digits), "%.*s", (int)value.len, value.data);
    count = strtol(digits, NULL, 10);
    if (world->config.other != NULL && side == 0 &&
        sim_reader_ttl(world, key, view_of(owner), count) == -2) {
        return 0;
    }
    return count;
}

int64_t sim_server_left(const struct sim_user *user, unsigned side)
{
    const struct sim_world *world = user->client->world;
    struct sim_view key = view_of(world->keys[user->key]);
    char owner[RLOCK__OWNER_SIZE + 6];
    struct sim_key_info info;

    if ((world->config.kind->caps & RLOCK__CAP_UNITS) != 0) {
        int64_t left_ms;

        owner_name(user->client, side, user->holds[side].number, owner);
        (void)sim_permits_of(world, user->key, owner, &left_ms);
        return left_ms;
    }
    if (world->config.other != NULL && side == 0) { /* others make the key last longer */
        owner_name(user->client, side, user->holds[side].number, owner);
        return sim_reader_ttl(world, key, view_of(owner), sim_server_count(user, side));
    }
    return sim_find_key(world, key, &info) ? info.pttl_ms : 0;
}

static struct sim_hold *hold_of(struct sim_user *user)
{
    return &user->holds[user->side];
}

/* ---- Holds ---- */

static void check_hold(struct sim_user *user, unsigned side)
{
    const struct sim_hold *hold = &user->holds[side];
    struct sim_client *client = user->client;
    struct sim_world *world = client->world;
    int64_t now = sim_clock(client), until = sim_valid_until(hold);

    if (hold->depth == 0) {
        return;
    }
    if (hold->lost && until != 0) {
        sim_violate(world, "client %u: a lost hold of %s is valid again", client->index,
                    world->keys[user->key]);
    }
    sim_check_verified(user, side);
    if (hold->doomed) {
        /* unfenced, a late copy of its acquire may have taken it again; and a replica may have had
         * the entry that its call had in the lock's queue */
        bool may_be_back =
            !client->may_kill || (world->only.queues != 0 && world->config.failover_us != 0);

        if (until > hold->doomed_valid && (!may_be_back || sim_server_count(user, side) == 0)) {
            sim_violate(world, "client %u: a hold of %s that the server lost was prolonged",
                        client->index, world->keys[user->key]);
        }
        return;
    }
    if (until > now && sim_server_count(user, side) == 0) {
        sim_violate(
            world,
            "client %u user %llu: believes to hold %s for %lld us more, the server disagrees",
            client->index, (unsigned long long)user->owner.id, world->keys[user->key],
            (long long)(until - now));
    }
    sim_replica_check(user, side);
    if (until != 0 && !hold->lost && !sim_is_paused(client) && now > until + SLACK &&
        client->disturbed < world->now - SLACK) { /* where it attends to few at a time */
        sim_violate(world, "client %u: the loss of %s was not reported", client->index,
                    world->keys[user->key]);
    }
}

static void check_call(struct sim_user *user)
{
    struct sim_client *client = user->client;
    int64_t now = sim_clock(client), due = sim_user_due(user);

    if (user->calling && !sim_is_paused(client) && client->disturbed < client->world->now - SLACK &&
        due != RLOCK__NEVER && now > due + SLACK + RLOCK__MS) {
        sim_violate(client->world, "client %u: a call is %lld us past its deadline", client->index,
                    (long long)(now - due));
    }
}

static void doom(const struct sim_user *user, struct sim_hold *hold)
{
    if (hold->depth != 0 && !hold->doomed) {
        hold->doomed = true;
        hold->doomed_valid =
            sim_clock(user->client) + user->client->world->config.lease + 20 * RLOCK__MS;
    }
}

void sim_doom(struct sim_world *world, int key)
{
    if (key < 0) {
        memset(world->queues, 0, sizeof(world->queues));
    }
    for (unsigned i = 0; i < world->config.n_clients; i++) {
        struct sim_client *client = world->clients[i];

        for (unsigned j = 0; client != NULL && j < client->n_users; j++) {
            struct sim_user *user = &client->users[j];

            if (key < 0 || user->key == (unsigned)key) {
                user->doomed_call = user->calling;
                doom(user, &user->holds[0]);
                doom(user, &user->holds[1]);
            }
        }
        for (unsigned k = 0; client != NULL && k < world->config.n_keys; k++) {
            if (key < 0 || k == (unsigned)key) {
                sim_linger_doom(client, k, sim_clock(client) + world->config.lease);
            }
        }
    }
}

void sim_doom_calls(struct sim_world *world, unsigned key)
{
    for (unsigned i = 0; i < world->config.n_clients * SIM_MAX_USERS; i++) {
        struct sim_user *user = &world->clients[i / SIM_MAX_USERS]->users[i % SIM_MAX_USERS];

        user->doomed_call |= user->calling && user->key == key;
    }
}

void sim_doom_owner(struct sim_world *world, const char *owner)
{
    char name[RLOCK__OWNER_SIZE + 6];

    for (unsigned i = 0; i < world->config.n_clients * SIM_MAX_USERS; i++) {
        struct sim_client *client = world->clients[i / SIM_MAX_USERS];
        struct sim_user *user = &client->users[i % SIM_MAX_USERS];

        owner_name(client, 0, user->holds[0].number, name);
        if (user->holds[0].depth != 0 && strcmp(name, owner) == 0) {
            /* maybe not for the first time: a late copy may have taken it again */
            user->holds[0].doomed = true;
            user->holds[0].doomed_valid = RLOCK__NEVER;
        }
        owner_name(client, 0, client->lingering[user->key].number, name);
        if (strcmp(name, owner) == 0) {
            sim_linger_doom(client, user->key, RLOCK__NEVER);
        }
        owner_name(client, 0, user->call.number, name);
        user->seized |= user->calling && strcmp(name, owner) == 0;
    }
}

/* ---- The server ---- */

static void check_dead(struct sim_world *world, const struct sim_key_info *key)
{
    for (size_t i = 0; i < key->n_items; i++) {
        struct sim_item_info item = sim_key_item(key, i);
        struct sim_dead *dead = NULL;

        HASH_FIND(hh, world->dead, item.name.data, item.name.len, dead);
        /* while a slot moves its queue may be elsewhere when a call leaves it, and come back */
        bool returned =
            world->config.n_nodes > 1 && world->only.queues != 0 && key->pttl_ms <= RESERVED_MS;

        if (dead != NULL && !returned && !sim_is_reserved(world, item.name)) {
            sim_violate(world, "%s holds %.*s on the server", dead->owner, (int)key->name.len,
                        key->name.data);
        }
    }
}

void sim_note_free(struct sim_world *world, unsigned side, unsigned key, bool is_free)
{
    int64_t *since = &world->free_since[side][key];

    *since = !is_free ? RLOCK__NEVER : *since == RLOCK__NEVER ? world->now : *since;
}

int64_t sim_longest_ms(const struct sim_world *world)
{
    return rlock__max(2 * world->config.lease / RLOCK__MS,
                      world->only.queues != 0 ? RESERVED_MS : 0);
}

static void look(struct sim_world *world, unsigned key)
{
    struct sim_key_info info;

    if (sim_foreign_is_at(world, key)) {
        sim_note_free(world, 0, key, false);
        sim_note_free(world, 1, key, false);
        return;
    }
    if (sim_latch_is(world)) {
        sim_latch_look(world, key);
        return;
    }
    if ((world->config.kind->caps & RLOCK__CAP_UNITS) != 0) {
        sim_permits_look(world, key);
        return;
    }
    if (world->config.other != NULL) {
        sim_look_at_sides(world, key);
    } else {
        bool is_free = !sim_find_key(world, view_of(world->keys[key]), &info);

        sim_note_free(world, 0, key, is_free);
    }
    if (!sim_find_key(world, view_of(world->keys[key]), &info)) {
        return;
    }
    if (info.pttl_ms < 0 || info.pttl_ms > sim_longest_ms(world)) {
        sim_violate(world, "%s has a TTL of %lld ms", world->keys[key], (long long)info.pttl_ms);
    }
    if (info.n_items != 1 && world->config.other == NULL) {
        sim_violate(world, "%s has %zu holders", world->keys[key], info.n_items);
    }
    check_dead(world, &info);
}

void sim_check_server(struct sim_world *world)
{
    sim_move_loses(world);
    for (unsigned i = 0; i < world->config.n_keys; i++) {
        look(world, i);
        if (!sim_foreign_is_at(world, i)) {
            sim_check_queue(world, i);
            sim_check_entries(world, i);
        } else {
            world->entries[i].holder[0] = '\0'; /* who has it next was not given it by a holder */
        }
        sim_rely_key(world, i);
    }
}

void sim_check_step(struct sim_world *world)
{
    for (unsigned i = 0; i < world->config.n_keys; i++) {
        look(world, i);
        sim_rely_key(world, i);
        sim_turns_key(world, i);
        sim_check_waiters(world, 0, i);
        sim_check_waiters(world, 1, i);
        sim_check_head(world, i);
        sim_check_reserved(world, i);
    }
    for (unsigned i = 0; i < world->config.n_clients; i++) {
        struct sim_client *client = world->clients[i];

        sim_linger_check(client);
        for (unsigned j = 0; j < client->n_users; j++) {
            check_hold(&client->users[j], 0);
            check_hold(&client->users[j], 1);
            check_call(&client->users[j]);
            sim_rely(&client->users[j]);
            sim_passes(&client->users[j]);
            sim_proofs(&client->users[j]);
            sim_foreign_call(&client->users[j]);
            sim_turns(&client->users[j]);
        }
    }
    sim_rely_links(world);
    sim_standby_check(world);
    sim_check_ears(world);
    sim_foreign_check(world);
    if (world->config.other != NULL) {
        sim_check_sides(world);
    }
}

/* ---- Calls ---- */

void sim_declare_dead(struct sim_world *world, const struct sim_client *client, unsigned side,
                      uint64_t number, const char *why)
{
    struct sim_dead *dead = calloc(1, sizeof(*dead));
    struct sim_dead *old = NULL;

    owner_name(client, side, number, dead->owner);
    (void)snprintf(dead->why, sizeof(dead->why), "%s", why);
    HASH_REPLACE_STR(world->dead, owner, dead, old);
    free(old);
}

/* A canceled call whose request is on its way says until when the lock may be taken. */
static void check_canceled(struct sim_user *user)
{
    const struct sim_config *config = &user->client->world->config;

    hold_of(user)->fuzzy = true;
    if (!sim_is_given_back(user) && user->client->may_kill) {
        sim_violate(user->client->world, "client %u: is in doubt of what it has given back",
                    user->client->index);
    }
    if (config->faults == 0 && 2 * config->delay_max < CANCEL_MOST) {
        sim_violate(user->client->world, "client %u: waits for no answer", user->client->index);
    }
}

/* A wait ends for somebody who holds the lock: not before its server was asked. */
static void check_timed_out(const struct sim_user *user)
{
    const struct sim_client *client = user->client;

    if (client->world->config.faults == 0 && user->call.acquire.attempts == 0 &&
        user->call.acquire.target != 0) {
        sim_violate(client->world, "client %u: timed out for %s, and asked nobody", client->index,
                    client->world->keys[user->key]);
    }
}

static void check_refused(struct sim_user *user)
{
    struct sim_client *client = user->client;
    const struct rlock__call *call = &user->call;

    if (call->code == RLOCK_ECANCELED && strstr(user->texts.detail, "if it was granted") != NULL) {
        check_canceled(user);
        return;
    }
    /* what another thread gave up meanwhile has a release of its own */
    if (hold_of(user)->depth == 0 && call->number != 0 && call->number != hold_of(user)->given_up &&
        !sim_is_ended_adoption(user)) {
        sim_declare_dead(client->world, client, user->side, call->number, "refused");
    }
    sim_check_server(client->world);
    if (call->code == RLOCK_EBUSY || call->code == RLOCK_ETIMEDOUT) {
        sim_check_refused(user);
    }
    if (call->code == RLOCK_ETIMEDOUT) {
        check_timed_out(user);
    }
}

/* Tokens grow with every hold, and stay within one. */
static void check_token(struct sim_user *user)
{
    struct sim_world *world = user->client->world;
    struct sim_hold *hold = hold_of(user);
    uint64_t token = user->call.acquire.token, *last = &world->last_token[user->key];

    if (world->config.kind != &rlock__fenced_ops || user->call.kind != RLOCK__ACQUIRE) {
        return;
    }
    if (user->call.count == 1 ? token <= *last && !user->doomed_call && !user->seized
                              : token != hold->token) {
        sim_violate(world, "client %u: token %llu of %s after %llu", user->client->index,
                    (unsigned long long)token, world->keys[user->key], (unsigned long long)*last);
    }
    hold->token = token;
    if (user->call.count == 1 && !user->doomed_call) { /* a nested level draws none */
        *last = token > *last ? token : *last;
        if ((int64_t)token >= world->lacks_token[user->key]) { /* drawn after that */
            world->lacks_token[user->key] = 0;
        }
    }
}

static void check_granted(struct sim_user *user)
{
    struct sim_client *client = user->client;
    struct sim_hold *hold = hold_of(user);
    long count = sim_server_count(user, user->side);

    check_token(user);
    if (user->seized) {
        hold->doomed = true;
        hold->doomed_valid = RLOCK__NEVER;
    }
    if (user->doomed_call && count == 0 &&
        !hold->doomed) { /* granted, then lost before the answer came */
        hold->doomed = true;
        hold->doomed_valid = sim_valid_until(hold);
        return;
    }
    if (!user->doomed_call && !hold->doomed && !hold->fuzzy && !hold->half && client->may_kill &&
        count != (long)user->call.count && sim_valid_until(hold) > sim_clock(client)) {
        sim_violate(client->world, "client %u: count %u of %s returned, the server has %ld",
                    client->index, user->call.count, client->world->keys[user->key], count);
    }
}

static void check_doubt(const struct sim_user *user)
{
    struct sim_client *client = user->client;
    bool taking = user->call.kind == RLOCK__ACQUIRE;

    if (taking && user->call.acquire.attempts == 0) {
        sim_violate(client->world, "client %u: in doubt of %s, which it did not ask for",
                    client->index, client->world->keys[user->key]);
    }
    if (client->world->config.faults == 0 && taking && user->call.acquire.adopts == NULL &&
        TRIPS * client->world->config.delay_max < client->world->config.op_timeout) {
        sim_violate(client->world, "client %u: in doubt on a perfect network", client->index);
    }
}

void sim_check_done(struct sim_user *user)
{
    struct sim_client *client = user->client;
    const struct rlock__call *call = &user->call;
    struct sim_hold *hold = hold_of(user);
    bool taking = call->kind == RLOCK__ACQUIRE;

    if (client->world->config.other != NULL && taking) {
        sim_check_taken_side(user);
    }
    switch (call->code) {
    case RLOCK_OK:
        if (taking || hold->depth != 0) {
            check_granted(user);
        } else if (client->may_kill && !sim_is_passed(user) && !hold->shared) {
            sim_declare_dead(client->world, client, user->side, hold->number, "released");
            sim_check_server(client->world);
        }
        break;
    case RLOCK_EBUSY:
    case RLOCK_ETIMEDOUT:
    case RLOCK_ECANCELED:
    case RLOCK_ECONN:
    case RLOCK_ENOTREPLICATED:
    case RLOCK_EREFUSED:
    case RLOCK_EWRONGTYPE:
        if (strstr(rlock__call_detail(call), "part of a cluster") != NULL) { /* that passes */
            sim_violate(client->world, "client %u: %s cannot be locked here: %s", client->index,
                        client->world->keys[user->key], rlock__call_detail(call));
        }
        if (taking) {
            check_refused(user);
        }
        break;
    case RLOCK_EINDOUBT:
        hold->fuzzy = true;
        check_doubt(user);
        break;
    case RLOCK_EREACQUIRE:
        if ((client->world->config.kind != &rlock__nonreentrant_ops &&
             !client->world->config.no_reentry) ||
            hold->depth == 0) {
            sim_violate(client->world, "client %u: refused as if it held %s already", client->index,
                        client->world->keys[user->key]);
        }
        break;
    case RLOCK_ELOST:
        if (!hold->doomed && !hold->lost && !user->doomed_call && sim_valid_until(hold) != 0) {
            sim_violate(client->world, "client %u: lost %s, which nobody took", client->index,
                        client->world->keys[user->key]);
        }
        break;
    default:
        break;
    }
    sim_rely_done(user);
    sim_foreign_done(user);
    user->doomed_call = false;
}
