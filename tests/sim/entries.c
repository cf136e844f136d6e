/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The invariants of the queue that waiting calls enter on the server (src/lock/call/enter.h). After
 * every command that the server ran:
 *   an entry keeps its ticket       as long as it is there; and the queue ends within a minute
 *   the first one gets the lock     a release gives the lock to the first call whose client
 *                                   subscribes
 *   old entries get no grant        a release reserves the lock for a call that entered long ago
 *   the deaf do not enter           where nothing breaks, a call's client hears its channel
 * If a lease has ended, any client may take the lock. After every step, on a network that works:
 *   a gift is taken                 the call takes the lock within some round trips
 *   the gone leave                  each entry's call waits, or its client releases its number
 */
#include <stdio.h>
#include <stdlib.h>

#include "world.h"

#define TRIPS 8
#define SLACK (20 * RLOCK__MS)
#define FRESH (750 * RLOCK__MS)

bool sim_has_marks_alone(const struct sim_key_info *queue)
{
    bool alone = true;

    for (size_t i = 0; i < queue->n_items; i++) {
        alone = alone && sim_key_item(queue, i).name.data[0] == '~';
    }
    return alone;
}

static struct sim_view view_of(const char *text)
{
    return (struct sim_view){text, strlen(text)};
}

static bool find_entries(const struct sim_world *world, unsigned key, struct sim_key_info *ret_info)
{
    char name[64];

    (void)snprintf(name, sizeof(name), "rlock_wait:{%s}", world->keys[key]);
    return sim_find_key(world, view_of(name), ret_info) && ret_info->n_items > 0;
}

/* The owner that has the lock, or that writes under a read/write lock; "" if there is none. */
static void read_holder(const struct sim_world *world, const struct sim_key_info *lock,
                        char ret_holder[static SIM_OWNER_SIZE])
{
    static const char write[] = ":write";

    ret_holder[0] = '\0';
    for (size_t i = 0; i < lock->n_items; i++) {
        struct sim_view name = sim_key_item(lock, i).name;
        bool is_writer = sim_ends_with(name, write);

        if (world->config.other == NULL || is_writer) {
            name.len -= is_writer ? strlen(write) : 0;
            (void)snprintf(ret_holder, SIM_OWNER_SIZE, "%.*s", (int)name.len, name.data);
            return;
        }
    }
}

static void read_entries(const struct sim_world *world, unsigned key,
                         struct sim_entries *ret_entries)
{
    struct sim_key_info queue = {0}, lock = {0};

    (void)find_entries(world, key, &queue);
    ret_entries->n = queue.n_items < SIM_ENTRIES ? queue.n_items : SIM_ENTRIES;
    ret_entries->ends_ms = queue.pttl_ms;
    ret_entries->holder[0] = '\0';
    for (size_t i = 0; i < ret_entries->n; i++) {
        struct sim_item_info item = sim_key_item(&queue, i);

        (void)snprintf(ret_entries->names[i], SIM_OWNER_SIZE, "%.*s", (int)item.name.len,
                       item.name.data);
        ret_entries->tickets[i] = item.score;
    }
    if (sim_find_key(world, view_of(world->keys[key]), &lock) && lock.n_items > 0) {
        read_holder(world, &lock, ret_entries->holder);
        ret_entries->free_at = world->now + lock.pttl_ms * RLOCK__MS;
    }
}

static size_t find(const struct sim_entries *entries, const char *name)
{
    size_t at = 0;

    while (at < entries->n && strcmp(entries->names[at], name) != 0) {
        at++;
    }
    return at;
}

/* The place of an owner's entry, which has a form of two characters in front. */
static size_t find_owner(const struct sim_entries *entries, const char *owner)
{
    size_t at = 0;

    while (at < entries->n && strcmp(entries->names[at] + 2, owner) != 0) {
        at++;
    }
    return at;
}

static bool is_mark(const char *name)
{
    return name[0] == '~';
}

/* On how many sorts of channels, plain and sharded, the entry's client is heard at the server that
 * has the queue. */
static int heard_on(const struct sim_world *world, unsigned key, const char *name)
{
    const struct rlock__bytes common = world->clients[0]->specs[0][key]->channel;
    char channel[128], list[64];
    unsigned node;

    (void)snprintf(list, sizeof(list), "rlock_wait:{%s}", world->keys[key]);
    (void)snprintf(channel, sizeof(channel), "%.*s:%.36s", (int)common.len, common.at, name + 2);
    node = sim_holder_of(world, view_of(list));
    node = node != SIM_NODES ? node : sim_holder_of(world, view_of(world->keys[key]));
    if (node == SIM_NODES) {
        return 0;
    }
    return (sim_server_n_subscribers(world->nodes[node].server, view_of(channel), false) != 0) +
           (sim_server_n_subscribers(world->nodes[node].server, view_of(channel), true) != 0);
}

static bool is_heard(const struct sim_world *world, unsigned key, const char *name)
{
    return heard_on(world, key, name) != 0;
}

/* Also by a client that knows one sort of channels alone. */
static bool is_heard_by_all(const struct sim_world *world, unsigned key, const char *name)
{
    return heard_on(world, key, name) == (world->config.both ? 2 : 1);
}

static void check_tickets(struct sim_world *world, unsigned key, const struct sim_entries *before,
                          const struct sim_entries *after)
{
    if (after->n > 0 && (after->ends_ms < 0 || after->ends_ms > SIM_ENTRIES_MS)) {
        sim_violate(world, "%s: its queue ends in %lld ms", world->keys[key],
                    (long long)after->ends_ms);
    }
    for (size_t i = 0; i < after->n; i++) {
        size_t was = find(before, after->names[i]);
        double by = was < before->n ? after->tickets[i] - before->tickets[was] : 0;

        /* a replica may bring back an older entry */
        if (!is_mark(after->names[i]) && (by < 0 || by > 0) && world->config.failover_us == 0) {
            sim_violate(world, "%s: the ticket of %s changes", world->keys[key], after->names[i]);
        }
    }
}

/* The holder changed in one command, before its lease ended: a release gave the lock to somebody in
 * the queue. */
static void check_gift(struct sim_world *world, unsigned key, const struct sim_entries *before,
                       const struct sim_entries *after)
{
    size_t place = find_owner(before, after->holder);

    if (place == before->n || world->now < world->open_until[key]) {
        return; /* handed over by a text, or somebody's by hand; or the keys are on two servers */
    }
    if (!is_heard(world, key, before->names[place])) {
        sim_violate(world, "%s: %s got it, and nobody hears it", world->keys[key], after->holder);
    }
    if (after->free_at - world->now == RLOCK__PUSH_US && before->names[place][0] == 'p' &&
        world->now - before->since[place] > FRESH && world->config.faults == 0) {
        sim_violate(world, "%s: %s was granted it, and entered %lld us ago", world->keys[key],
                    after->holder, (long long)(world->now - before->since[place]));
    }
    for (size_t i = 0; i < place; i++) {
        if (!is_mark(before->names[i]) && is_heard_by_all(world, key, before->names[i])) {
            sim_violate(world, "%s: %s got it before %s", world->keys[key], after->holder,
                        before->names[i]);
        }
    }
    if (find_owner(after, after->holder) < after->n) {
        sim_violate(world, "%s: %s got it, and stands in the queue", world->keys[key],
                    after->holder);
    }
}

void sim_check_entries(struct sim_world *world, unsigned key)
{
    struct sim_entries *before = &world->entries[key];
    static struct sim_entries after; /* the simulator is one thread, and this is large */

    if (world->only.queues == 0) {
        return;
    }
    read_entries(world, key, &after);
    check_tickets(world, key, before, &after);
    if (before->holder[0] != '\0' && after.holder[0] != '\0' &&
        strcmp(before->holder, after.holder) != 0 && world->now < before->free_at) {
        check_gift(world, key, before, &after);
    }
    for (size_t i = 0; i < after.n; i++) {
        size_t was = find(before, after.names[i]);

        after.since[i] = was < before->n ? before->since[was] : world->now;
        if (was == before->n && !is_mark(after.names[i]) && world->config.faults == 0 &&
            !world->healed && !is_heard(world, key, after.names[i])) {
            sim_violate(world, "%s: %s enters, and does not hear", world->keys[key],
                        after.names[i]);
        }
    }
    after.held_since = strcmp(before->holder, after.holder) == 0 ? before->held_since : world->now;
    *before = after;
}

/* ---- After each step ---- */

/* The user whose call has this number; NULL: nobody's has. */
static const struct sim_user *waiter_of(const struct sim_world *world, const char *owner)
{
    const struct sim_client *client = sim_owner_client(world, view_of(owner));
    uint64_t number = strtoull(owner + RLOCK__UUID_LEN + 1, NULL, 10);

    for (unsigned i = 0; client != NULL && i < client->n_users; i++) {
        const struct sim_user *user = &client->users[i];

        if (user->calling && user->call.kind == RLOCK__ACQUIRE && user->call.number == number) {
            return user;
        }
    }
    return NULL;
}

void sim_check_reserved(struct sim_world *world, unsigned key)
{
    const struct sim_entries *entries = &world->entries[key];
    int64_t most = TRIPS * world->config.delay_max + SLACK;
    const struct sim_user *user;

    if (world->only.queues == 0 || world->config.faults != 0 || world->healed) {
        return;
    }
    user = entries->holder[0] != '\0' ? waiter_of(world, entries->holder) : NULL;
    if (user != NULL && user->call.acquire.target == 1 && world->now - entries->held_since > most) {
        sim_violate(world, "%s: client %u has it for %lld us, and does not take it",
                    world->keys[key], user->client->index,
                    (long long)(world->now - entries->held_since));
    }
    for (size_t i = 0; i < entries->n; i++) {
        if (!is_mark(entries->names[i]) && world->now - entries->since[i] > most &&
            waiter_of(world, entries->names[i] + 2) == NULL) {
            const struct sim_client *client =
                sim_owner_client(world, view_of(entries->names[i] + 2));
            uint64_t number = strtoull(entries->names[i] + RLOCK__UUID_LEN + 3, NULL, 10);

            if (client != NULL && !sim_is_released(client, number)) {
                sim_violate(world, "%s: %s stands in its queue, and nobody waits", world->keys[key],
                            entries->names[i]);
            }
        }
    }
}
