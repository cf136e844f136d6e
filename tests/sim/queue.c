/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The invariants of a queue on the server, looked at after every command that it ran:
 *   list and scores agree    the same owners, each once
 *   nobody jumps it          new ones come to its end, the others keep their order
 *   first come, first served a grant goes to the head; on a perfect network nobody is passed over
 *   the living stay          who is passed over had died, or did not answer for long: a head that
 *                            is heard not within 3 s, and nobody while the lock is taken
 *   the dead go              who is second does not wait for a head that does not come
 *   scores do not drift      none is later than the places in front of it explain
 *   scores are sums          a new one is the last one's and a slot; who leaves of itself lowers by
 *                            a slot those behind, once; who asks may raise its own; else they stand
 * Where somebody meddled with the queue by hand, these hold again when it has been empty.
 */
#include <stdio.h>
#include <stdlib.h>

#include "world.h"

#define HEAD_SILENT (2900 * RLOCK__MS) /* 3 s, and clocks differ */
#define HEAD_WAITED_FOR (10 * RLOCK__SECOND)

static struct sim_view view_of(const char *text)
{
    return (struct sim_view){text, strlen(text)};
}

static bool is_named(struct sim_view view, const char *name)
{
    return strlen(name) == view.len && memcmp(view.data, name, view.len) == 0;
}

static void copy(char out[static SIM_OWNER_SIZE], struct sim_view view)
{
    (void)snprintf(out, SIM_OWNER_SIZE, "%.*s", (int)view.len, view.data);
}

static size_t find(const struct sim_queue *queue, const char *name)
{
    size_t at = 0;

    while (at < queue->n && strcmp(queue->names[at], name) != 0) {
        at++;
    }
    return at;
}

static bool find_key(const struct sim_world *world, const char *prefix, unsigned key,
                     struct sim_key_info *ret_info)
{
    char name[64];

    (void)snprintf(name, sizeof(name), "%s:{%s}", prefix, world->keys[key]);
    return sim_server_find_key(world->server, view_of(name), ret_info);
}

/* ---- What is there ---- */

static bool score_of(const struct sim_key_info *scores, const char *name, double *ret_score)
{
    for (size_t i = 0; i < scores->n_items; i++) {
        struct sim_item_info item = sim_key_item(scores, i);

        if (is_named(item.name, name)) {
            *ret_score = item.score;
            return true;
        }
    }
    return false;
}

static void read_queue(struct sim_world *world, unsigned key, struct sim_queue *ret_queue)
{
    struct sim_key_info list = {0}, scores = {0}, lock;

    (void)find_key(world, "redisson_lock_queue", key, &list);
    (void)find_key(world, "redisson_lock_timeout", key, &scores);
    ret_queue->n = list.n_items < SIM_QUEUE ? list.n_items : SIM_QUEUE;
    ret_queue->agrees = list.n_items == scores.n_items;
    for (size_t i = 0; i < ret_queue->n; i++) {
        copy(ret_queue->names[i], sim_key_item(&list, i).name);
        ret_queue->scores[i] = 0;
        ret_queue->agrees &= score_of(&scores, ret_queue->names[i], &ret_queue->scores[i]) &&
                             find(ret_queue, ret_queue->names[i]) == i;
    }
    ret_queue->holder[0] = '\0';
    ret_queue->free_at = rlock__min(world->queues[key].free_at, world->now);
    if (sim_server_find_key(world->server, view_of(world->keys[key]), &lock)) {
        copy(ret_queue->holder, sim_key_item(&lock, 0).name);
        ret_queue->free_at = world->now + lock.pttl_ms * RLOCK__MS;
    }
}

static const struct sim_client *find_client(const struct sim_world *world, const char *name)
{
    for (unsigned i = 0; i < world->config.n_clients; i++) {
        const struct sim_client *client = world->clients[i];

        if (client != NULL && strncmp(name, client->core.uuid, RLOCK__UUID_LEN) == 0) {
            return client;
        }
    }
    return NULL;
}

/* The user that waits as this owner; NULL nobody does any more. */
static const struct sim_user *find_waiter(const struct sim_client *client, const char *name)
{
    for (unsigned i = 0; i < client->n_users; i++) {
        const struct sim_user *user = &client->users[i];

        if (user->calling && user->call.kind == RLOCK__ACQUIRE && user->call.enqueued &&
            user->call.number == strtoull(name + RLOCK__UUID_LEN + 1, NULL, 10)) {
            return user;
        }
    }
    return NULL;
}

/* ---- What must not be ---- */

/* Whether somebody hears the channel of one who waits. */
static bool is_heard(const struct sim_world *world, unsigned key, const char *name)
{
    char channel[128];

    (void)snprintf(channel, sizeof(channel), "redisson_lock__channel:{%s}:%s", world->keys[key],
                   name);
    return sim_server_n_subscribers(world->server, view_of(channel), false) != 0;
}

/* One was put out, not by its score. */
static void check_passed_over(struct sim_world *world, unsigned key, const struct sim_queue *before,
                              const struct sim_queue *after, size_t place)
{
    int64_t since = rlock__max(before->head_since, before->free_at);
    int64_t by = sim_server_clock_us(world->server) / 1000;

    for (size_t i = 0; i < place; i++) {
        if (find(after, before->names[i]) == after->n) {
            by += world->config.slot_ms; /* who leaves lowers those behind */
            break;
        }
    }
    if (before->scores[place] <= (double)by) {
        return;
    }
    if (world->now < before->free_at) {
        sim_violate(world, "%s: %s was passed over while the lock was taken", world->keys[key],
                    before->names[place]);
    } else if (is_heard(world, key, before->names[place]) &&
               (place != 0 || world->now - since < HEAD_SILENT)) {
        sim_violate(world, "%s: %s was passed over, which is heard", world->keys[key],
                    before->names[place]);
    }
}

/* Somebody who waits was put out, or passed over. */
static void check_put_out(struct sim_world *world, unsigned key, const struct sim_queue *before,
                          const struct sim_queue *after, size_t place)
{
    const char *name = before->names[place];
    const struct sim_client *client = find_client(world, name);
    const struct sim_user *user = client != NULL ? find_waiter(client, name) : NULL;
    bool heard = world->config.drop_messages < 20;
    int64_t hampered = 0;

    world->passed += client == NULL || user != NULL;
    if (user == NULL) {
        return;
    }
    hampered = rlock__max(client->hampered, client->disturbed);
    sim_trace(world, "client %u user %llu was passed over", client->index,
              (unsigned long long)user->owner.id);
    check_passed_over(world, key, before, after, place);
    if (world->config.faults == 0 ||
        (heard && client->may_listen && hampered < world->now - 4 * RLOCK__SECOND &&
         client->sub.state == SIM_UP)) {
        sim_violate(world, "%s: client %u user %llu was put out of the queue", world->keys[key],
                    client->index, (unsigned long long)user->owner.id);
    }
}

static void check_order(struct sim_world *world, unsigned key, const struct sim_queue *before,
                        const struct sim_queue *after)
{
    size_t last = 0;

    for (size_t i = 0; i + 1 < after->n; i++) {
        size_t was = find(before, after->names[i]);

        if (was == before->n || was < last) {
            sim_violate(world, "%s: %s jumped the queue", world->keys[key], after->names[i]);
        }
        last = was;
    }
    if (after->n > 1 && find(before, after->names[after->n - 1]) < last) {
        /* it had to queue again */
        check_put_out(world, key, before, after, find(before, after->names[after->n - 1]));
    }
}

static void check_leavers(struct sim_world *world, unsigned key, const struct sim_queue *before,
                          const struct sim_queue *after)
{
    bool granted = after->holder[0] != '\0' && strcmp(after->holder, before->holder) != 0;

    for (size_t i = 0; i < before->n; i++) {
        bool stays = find(after, before->names[i]) < after->n;

        if (!stays && !(granted && strcmp(after->holder, before->names[i]) == 0)) {
            check_put_out(world, key, before, after, i);
        }
    }
    if (granted && find(before, after->holder) == before->n && after->n != 0) {
        sim_violate(world, "%s: %s took it past the queue", world->keys[key], after->holder);
    }
    for (size_t i = 0; granted && i < find(before, after->holder) && i < before->n; i++) {
        if (find(after, before->names[i]) < after->n) {
            sim_violate(world, "%s: %s took it before %s", world->keys[key], after->holder,
                        before->names[i]);
        }
    }
}

static void check_scores(struct sim_world *world, unsigned key, struct sim_queue *after)
{
    double now = (double)(sim_server_clock_us(world->server) / 1000);
    double slot = (double)world->config.slot_ms, lease = (double)world->config.lease / 1000 * 2;

    for (size_t i = 0; i < after->n; i++) {
        if (after->scores[i] > now + lease + slot * (double)(after->longest + 1) + 1) {
            sim_violate(world, "%s: the score of %s is %.0f ms from now, in a queue of %zu",
                        world->keys[key], after->names[i], after->scores[i] - now, after->n);
        }
    }
}

/* What a place asks for: now, what is left of the holder's lease, a slot for each up to it. */
static double score_of_place(const struct sim_world *world, unsigned key, size_t place)
{
    struct sim_key_info lock = {0};
    int64_t ttl = sim_server_find_key(world->server, view_of(world->keys[key]), &lock)
                      ? rlock__max(lock.pttl_ms, 0)
                      : 0;

    return (double)(sim_server_clock_us(world->server) / 1000 + ttl +
                    world->config.slot_ms * (int64_t)place);
}

/* The one that came to the end of the queue. */
static void check_new_score(struct sim_world *world, unsigned key, const struct sim_queue *after)
{
    double place = score_of_place(world, key, after->n), slot = (double)world->config.slot_ms;
    double sum = after->n > 1 ? after->scores[after->n - 2] + slot : place;
    double wanted = sum - place > slot / 2 || place - sum > slot / 2 ? place : sum;

    if (after->scores[after->n - 1] != wanted) {
        sim_violate(world, "%s: %s came with a score %.0f ms from its sum", world->keys[key],
                    after->names[after->n - 1], after->scores[after->n - 1] - wanted);
    }
}

/* How many left of themselves from in front of a place: one that was granted, or gave up; -1 who
 * left may have been put out. */
static int left_before(const struct sim_world *world, const struct sim_queue *before,
                       const struct sim_queue *after, size_t place)
{
    bool granted = after->holder[0] != '\0' && strcmp(after->holder, before->holder) != 0;
    int unknown = 0;

    if (granted && find(before, after->holder) < before->n) {
        return 1;
    }
    for (size_t i = 0; i < place; i++) {
        const struct sim_client *client = find_client(world, before->names[i]);

        unknown += find(after, before->names[i]) == after->n &&
                   (client == NULL || find_waiter(client, before->names[i]) == NULL);
    }
    return unknown == 0 || world->config.faults == 0 ? unknown : -1;
}

static void check_changes(struct sim_world *world, unsigned key, const struct sim_queue *before,
                          const struct sim_queue *after)
{
    double slot = (double)world->config.slot_ms;
    int raised = 0;

    for (size_t i = 0; i < after->n; i++) {
        size_t was = find(before, after->names[i]);
        double change = was < before->n ? after->scores[i] - before->scores[was] : 0;
        int left = was < before->n ? left_before(world, before, after, was) : 0;

        if (was == before->n) {
            check_new_score(world, key, after);
        } else if (change > 0) {
            raised += left == 1 || after->scores[i] != score_of_place(world, key, i + 1) ? 2 : 1;
        } else if (left < 0 ? change != 0 && change != -slot : change != -slot * left) {
            sim_violate(world, "%s: the score of %s changes by %.0f, %d left before it",
                        world->keys[key], after->names[i], change, left);
        }
    }
    if (raised > 1) {
        sim_violate(world, "%s: scores are raised that are nobody's who asked", world->keys[key]);
    }
}

void sim_check_queue(struct sim_world *world, unsigned key)
{
    struct sim_queue *before = &world->queues[key];
    static struct sim_queue after; /* the simulator is one thread, and this is large */

    if ((world->config.kind->caps & RLOCK__CAP_QUEUES) == 0) {
        return;
    }
    read_queue(world, key, &after);
    after.head_since =
        before->n != 0 && after.n != 0 && strcmp(before->names[0], after.names[0]) == 0
            ? before->head_since
            : world->now;
    after.meddled = before->meddled && (after.n != 0 || !after.agrees);
    after.longest = after.n > before->longest ? after.n : before->longest;
    if (!before->meddled && !after.meddled) {
        if (!after.agrees) {
            sim_violate(world, "%s: the queue's list and scores differ", world->keys[key]);
        }
        check_order(world, key, before, &after);
        check_leavers(world, key, before, &after);
        check_changes(world, key, before, &after);
        check_scores(world, key, &after);
    }
    *before = after;
}

void sim_check_head(struct sim_world *world, unsigned key)
{
    const struct sim_queue *queue = &world->queues[key];
    int64_t since = rlock__max(queue->head_since, queue->free_at);
    const struct sim_client *second = queue->n > 1 ? find_client(world, queue->names[1]) : NULL;
    const struct sim_user *waiter = second != NULL ? find_waiter(second, queue->names[1]) : NULL;

    if (waiter != NULL && !queue->meddled &&
        world->now - rlock__max(since, waiter->began_at) > HEAD_WAITED_FOR &&
        rlock__max(second->hampered, second->disturbed) < world->now - HEAD_WAITED_FOR) {
        sim_violate(world, "%s: is free for %lld us, and its head does not come", world->keys[key],
                    (long long)(world->now - since));
    }
}

/* At the end only the dead may be in a queue: nobody came to pass them over. */
bool sim_queue_is_settled(const struct sim_world *world, const struct sim_key_info *key)
{
    for (size_t i = 0; i < key->n_items; i++) {
        struct sim_item_info item = sim_key_item(key, i);

        for (unsigned j = 0; j < world->config.n_clients; j++) {
            const struct sim_client *client = world->clients[j];

            if (client->may_kill && item.name.len > RLOCK__UUID_LEN &&
                memcmp(item.name.data, client->core.uuid, RLOCK__UUID_LEN) == 0) {
                return false;
            }
        }
    }
    return true;
}
