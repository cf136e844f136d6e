/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The invariants of a queue on the server, looked at after every command that it ran:
 *   list and scores agree    the same owners, each once
 *   nobody jumps it          new ones come to its end, the others keep their order
 *   first come, first served a grant goes to the head; on a perfect network nobody is passed over
 *   the living stay          who is passed over had died, or did not answer for long: nobody while
 *                            the lock is taken; one that is heard not within 3 s, and asked 4 times
 *   the dead go              who is second does not wait for a head that does not come, and who
 *                            comes a second time, a second later, finds no dead head
 *   a dead queue ends        where one of ours stands, list and scores end, and later than every
 *                            score; where peers alone stand, they have no end
 *   scores cost nothing      each is what its place asks for, as it was when its owner last asked;
 *                            but for the head, and for peers behind it, none is changed by others
 * Where somebody meddled with the queue by hand, these hold again when it has been empty. Some
 * clients have a UUID as Redisson's: those count as peers.
 */
#include <stdio.h>
#include <stdlib.h>

#include "world.h"

#define HEAD_SILENT (2900 * RLOCK__MS) /* 3 s, and clocks differ */
#define UNHEARD (950 * RLOCK__MS)
#define HEAD_WAITED_FOR (10 * RLOCK__SECOND)
#define DEAD_SEEN (1050 * RLOCK__MS) /* 1 s, and clocks differ */
#define MOST_ASKS 4

static struct sim_view view_of(const char *text)
{
    return (struct sim_view){text, strlen(text)};
}

static bool is_named(struct sim_view view, const char *name)
{
    return strlen(name) == view.len && memcmp(view.data, name, view.len) == 0;
}

static bool is_peer(const char *name)
{
    return strlen(name) < 15 || name[14] != '8'; /* the version of a UUID */
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
    return sim_find_key(world, view_of(name), ret_info);
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

static void copy_note(const struct sim_key_info *notes, const char *name,
                      char out[static SIM_OWNER_SIZE])
{
    out[0] = '\0';
    for (size_t i = 0; i < notes->n_items; i++) {
        struct sim_item_info item = sim_key_item(notes, i);

        if (is_named(item.name, name)) {
            copy(out, item.value);
        }
    }
}

static void read_queue(struct sim_world *world, unsigned key, struct sim_queue *ret_queue)
{
    struct sim_key_info list = {0}, scores = {0}, notes = {0}, lock;

    (void)find_key(world, "rlock_fair", key, &notes);
    (void)find_key(world, "redisson_lock_queue", key, &list);
    (void)find_key(world, "redisson_lock_timeout", key, &scores);
    ret_queue->n = list.n_items < SIM_QUEUE ? list.n_items : SIM_QUEUE;
    ret_queue->agrees = list.n_items == scores.n_items;
    ret_queue->list_ms = list.pttl_ms;
    ret_queue->scores_ms = scores.pttl_ms;
    ret_queue->most_peers = 0;
    for (size_t i = 0; i < ret_queue->n; i++) {
        copy(ret_queue->names[i], sim_key_item(&list, i).name);
        ret_queue->scores[i] = 0;
        ret_queue->most_peers += is_peer(ret_queue->names[i]);
        copy_note(&notes, ret_queue->names[i], ret_queue->notes[i]);
        ret_queue->agrees &= score_of(&scores, ret_queue->names[i], &ret_queue->scores[i]) &&
                             find(ret_queue, ret_queue->names[i]) == i;
    }
    ret_queue->holder[0] = '\0';
    ret_queue->free_at = rlock__min(world->queues[key].free_at, world->now);
    if (sim_find_key(world, view_of(world->keys[key]), &lock)) {
        copy(ret_queue->holder, sim_key_item(&lock, 0).name);
        ret_queue->free_at = world->now + lock.pttl_ms * RLOCK__MS;
    }
}

/* The user that waits as this owner; NULL nobody does any more. */
static const struct sim_user *find_waiter(const struct sim_client *client, const char *name)
{
    for (unsigned i = 0; i < client->n_users; i++) {
        const struct sim_user *user = &client->users[i];

        if (user->calling && user->call.kind == RLOCK__ACQUIRE && user->call.acquire.enqueued &&
            user->call.number == strtoull(name + RLOCK__UUID_LEN + 1, NULL, 10)) {
            return user;
        }
    }
    return NULL;
}

/* ---- What must not be ---- */

/* Whether somebody hears the channel of one who waits, as the server sees it that has the queue:
 * while a slot moves, one who listens at its source is not heard at its target. */
static bool is_heard(const struct sim_world *world, unsigned key, const char *name)
{
    char channel[128], list[64];
    unsigned node;

    (void)snprintf(channel, sizeof(channel), "redisson_lock__channel:{%s}:%s", world->keys[key],
                   name);
    (void)snprintf(list, sizeof(list), "redisson_lock_queue:{%s}", world->keys[key]);
    node = sim_holder_of(world, view_of(list));
    node = node != SIM_NODES ? node : sim_holder_of(world, view_of(world->keys[key]));
    return node == SIM_NODES ? sim_n_subscribers(world, view_of(channel)) != 0
                             : sim_server_n_subscribers(world->nodes[node].server, view_of(channel),
                                                        world->config.sharded) != 0;
}

/* How often one was asked without an answer, as the notes say it. */
static int asks_of(const struct sim_queue *queue, size_t place)
{
    int receivers, asks;
    long long since;

    return sscanf(queue->notes[place], "%d %lld %d", &receivers, &since, &asks) == 3 ? asks : 0;
}

static void check_passed_over(struct sim_world *world, unsigned key, const struct sim_queue *before,
                              size_t place)
{
    const char *name = before->names[place];
    /* free since the failover at the latest, says the lock; the notes know of the time before */
    bool silent =
        world->now - before->free_at >= HEAD_SILENT || world->now < world->restored_until[key];

    if (world->now < before->free_at) {
        sim_violate(world, "%s: %s was passed over while the lock was taken", world->keys[key],
                    name);
    } else if (world->now - before->free_at < UNHEARD) {
        sim_violate(world, "%s: %s was passed over at once", world->keys[key], name);
    } else if (is_heard(world, key, name) && (!silent || asks_of(before, place) < MOST_ASKS)) {
        sim_violate(world, "%s: %s was passed over, which is heard", world->keys[key], name);
    }
}

/* Until when its calls for the key may take longer than they should. */
static int64_t hampered_until(const struct sim_client *client, unsigned key)
{
    return rlock__max(client->world->open_until[key],
                      rlock__max(client->hampered, client->disturbed));
}

/* Somebody who waits was put out, or passed over. */
static void check_put_out(struct sim_world *world, unsigned key, const struct sim_queue *before,
                          size_t place)
{
    const char *name = before->names[place];
    const struct sim_client *client = sim_owner_client(world, view_of(name));
    const struct sim_user *user = client != NULL ? find_waiter(client, name) : NULL;
    bool heard = world->config.drop_messages < 20;
    int64_t hampered = 0;

    world->passed += client == NULL || user != NULL;
    if (user == NULL) {
        return;
    }
    hampered = hampered_until(client, key);
    sim_trace(world, "client %u user %llu was passed over", client->index,
              (unsigned long long)user->owner.id);
    check_passed_over(world, key, before, place);
    if (world->config.faults == 0 ||
        (heard && client->may_listen && hampered < world->now - 4 * RLOCK__SECOND &&
         sim_hears(client, &user->call))) {
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
        check_put_out(world, key, before, find(before, after->names[after->n - 1]));
    }
}

/* Whether the holder gave the lock to a text, or got it from one. */
static bool is_handed_over(const struct sim_queue *before, const struct sim_queue *after)
{
    return sim_is_text(view_of(before->holder)) || sim_is_text(view_of(after->holder));
}

static void check_leavers(struct sim_world *world, unsigned key, const struct sim_queue *before,
                          const struct sim_queue *after)
{
    bool granted = after->holder[0] != '\0' && strcmp(after->holder, before->holder) != 0;

    for (size_t i = 0; i < before->n; i++) {
        bool stays = find(after, before->names[i]) < after->n;

        if (!stays && !(granted && strcmp(after->holder, before->names[i]) == 0)) {
            check_put_out(world, key, before, i);
        }
    }
    if (is_handed_over(before, after)) {
        return;
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

/* ---- Scores ---- */

/* What a place asks for, apart from peers: now, what is left of the holder's lease, a slot. */
static double least_score(const struct sim_world *world, unsigned key)
{
    struct sim_key_info lock = {0};
    int64_t ttl =
        sim_find_key(world, view_of(world->keys[key]), &lock) ? rlock__max(lock.pttl_ms, 0) : 0;

    return (double)(sim_server_clock_us(world->server) / 1000 + ttl + world->config.slot_ms);
}

/* What is known of a score: the one before, -1 none; and how many peers stand in front. */
struct score {
    double before, after, now, least, slot;
    double more; /* behind a grant by release: what the lease before was longer by */
    size_t peers;
    bool is_head, is_peer;
    bool restored; /* the queue may be of a time before its owner last heard of it */
};

/* Whether its owner has it from its own attempt. One that heard of no peer in front counts none. */
static bool is_own(const struct score *score)
{
    return score->after == score->least + score->slot * (double)score->peers ||
           (score->restored && score->after == score->least);
}

/* Whether somebody else's command may have made it so. */
static bool is_given(const struct score *score, bool peer_died)
{
    double peers = (double)score->peers;

    if (score->is_head && score->after >= score->least &&
        score->after <= score->least + score->more) {
        return true;
    }
    if (!score->is_peer || score->before < 0) {
        return false;
    }
    if (score->after > score->before) {
        return score->after <=
               score->least + score->more + score->slot * (peers + (peer_died ? 2 : 0));
    }
    /* a slot above its place; the one that was granted the lock then may have stood in front */
    return peer_died && score->after >= score->now + score->slot * (peers + 2) &&
           score->after <= score->least + score->slot * (peers + 2);
}

static bool has_lost_a_peer(const struct sim_queue *before, const struct sim_queue *after)
{
    for (size_t i = 0; i < before->n; i++) {
        if (find(after, before->names[i]) == after->n && is_peer(before->names[i])) {
            return true;
        }
    }
    return false;
}

/* By how much the lease before a grant by release was longer than that of the grant. Scores count
 * from it, because the client soon makes its lease full. */
static double longer_before(const struct sim_world *world, unsigned key,
                            const struct sim_queue *before, const struct sim_queue *after)
{
    bool pushed = before->holder[0] != '\0' && strcmp(before->holder, after->holder) != 0 &&
                  find(before, after->holder) < before->n;
    double until = (double)(before->free_at - world->now + sim_server_clock_us(world->server)) /
                       (double)RLOCK__MS +
                   (double)world->config.slot_ms;

    return pushed && until > least_score(world, key) ? until - least_score(world, key) + 1 : 0;
}

/* Each has the score that it had, or that it asked for, one of them; or a new one was given. */
static void check_changes(struct sim_world *world, unsigned key, const struct sim_queue *before,
                          const struct sim_queue *after)
{
    struct score score = {.now = (double)(sim_server_clock_us(world->server) / 1000),
                          .least = least_score(world, key),
                          .more = longer_before(world, key, before, after),
                          .slot = (double)world->config.slot_ms,
                          .restored = world->now < world->restored_until[key]};
    bool peer_died = has_lost_a_peer(before, after);
    int own = 0;

    for (size_t i = 0; i < after->n; i++) {
        size_t was = find(before, after->names[i]);

        score.is_head = i == 0;
        score.is_peer = is_peer(after->names[i]);
        score.before = was < before->n ? before->scores[was] : -1;
        score.after = after->scores[i];
        if (score.after != score.before && !is_given(&score, peer_died)) {
            own += is_own(&score) ? 1 : 2;
        }
        if (own > 1) {
            sim_violate(world, "%s: the score of %s changes from %.0f to %.0f, its place asks %.0f",
                        world->keys[key], after->names[i], score.before, score.after,
                        score.least + score.slot * (double)score.peers);
            return;
        }
        score.peers += score.is_peer;
    }
}

/* Whether it waits, and nothing has kept it from asking when it was due. */
static bool is_well(const struct sim_world *world, unsigned key, const char *name)
{
    const struct sim_client *client = sim_owner_client(world, view_of(name));

    return client != NULL && find_waiter(client, name) != NULL &&
           hampered_until(client, key) < world->now - 4 * RLOCK__SECOND;
}

/* None is over, or beyond what it may ever have asked for; the next head's is not old. */
static void check_scores(struct sim_world *world, unsigned key, const struct sim_queue *before,
                         const struct sim_queue *after)
{
    double now = (double)(sim_server_clock_us(world->server) / 1000);
    double slot = (double)world->config.slot_ms, lease = (double)world->config.lease / 1000 * 2;
    /* a lease that is handed over is as long as its taker wants, as a renewal's is */
    bool granted = after->holder[0] != '\0' && strcmp(after->holder, before->holder) != 0 &&
                   !is_handed_over(before, after);

    for (size_t i = 0; i < after->n; i++) {
        if (after->scores[i] <= now && is_well(world, key, after->names[i])) {
            sim_violate(world, "%s: the time of %s is over, and it waits", world->keys[key],
                        after->names[i]);
        }
        if (after->scores[i] > now + lease + slot * (double)(after->most_peers + 2)) {
            sim_violate(world, "%s: the score of %s is %.0f ms from now, in a queue of %zu",
                        world->keys[key], after->names[i], after->scores[i] - now, after->n);
        }
    }
    if (granted && after->n != 0 && after->scores[0] < least_score(world, key) - slot / 2) {
        sim_violate(world, "%s: the score of the next head, %s, is old", world->keys[key],
                    after->names[0]);
    }
}

/* ---- Ends ---- */

#define LEAST_END_MS 60000

/* Those who left since may have had the last score. */
static void check_ends(struct sim_world *world, unsigned key, const struct sim_queue *after)
{
    double now = (double)(sim_server_clock_us(world->server) / 1000);
    double slot = (double)world->config.slot_ms, lease = (double)world->config.lease / 1000 * 2;
    double most = now + lease + slot * (double)(after->most_peers + 2) +
                  (double)rlock__max(world->config.slot_ms, LEAST_END_MS);
    double last = now;
    size_t peers = 0;

    for (size_t i = 0; i < after->n; i++) {
        peers += is_peer(after->names[i]);
        last = after->scores[i] > last ? after->scores[i] : last;
    }
    if (after->n == 0 || after->n == SIM_QUEUE) {
        return;
    }
    if (peers == after->n && (after->list_ms != -1 || after->scores_ms != -1)) {
        sim_violate(world, "%s: the queue ends, in which peers alone stand", world->keys[key]);
    }
    if (peers < after->n &&
        (after->list_ms != after->scores_ms || now + (double)after->list_ms < last ||
         now + (double)after->list_ms > most)) {
        sim_violate(
            world, "%s: the queue ends in %lld ms, its scores in %lld, the last one is for %.0f",
            world->keys[key], (long long)after->list_ms, (long long)after->scores_ms, last - now);
    }
}

/* ---- After each command, and each step ---- */

/* Since when the head, which has not changed, nobody hears. */
static void note_head(const struct sim_world *world, unsigned key, const struct sim_queue *before,
                      struct sim_queue *after)
{
    bool same = before->n != 0 && after->n != 0 && strcmp(before->names[0], after->names[0]) == 0;
    bool still = same && after->holder[0] == '\0' && before->scores[0] == after->scores[0];

    after->head_since = same ? before->head_since : world->now;
    after->dead_since =
        still && !is_heard(world, key, after->names[0]) ? before->dead_since : world->now;
    after->seen_dead = still && after->dead_since != world->now ? before->seen_dead : 0;
}

void sim_check_queue(struct sim_world *world, unsigned key)
{
    struct sim_queue *before = &world->queues[key];
    static struct sim_queue after; /* the simulator is one thread, and this is large */

    if ((world->config.kind->caps & RLOCK__CAP_QUEUES) == 0) {
        return;
    }
    read_queue(world, key, &after);
    note_head(world, key, before, &after);
    after.had_text =
        after.holder[0] != '\0' ? sim_is_text(view_of(after.holder)) : before->had_text;
    after.meddled = before->meddled && (after.n != 0 || !after.agrees);
    if (after.n != 0 && before->most_peers > after.most_peers) {
        after.most_peers = before->most_peers;
    }
    if (!before->meddled && !after.meddled) {
        if (!after.agrees) {
            sim_violate(world, "%s: the queue's list and scores differ", world->keys[key]);
        }
        check_order(world, key, before, &after);
        check_leavers(world, key, before, &after);
        check_changes(world, key, before, &after);
        check_scores(world, key, before, &after);
        check_ends(world, key, &after);
    }
    *before = after;
}

void sim_check_head(struct sim_world *world, unsigned key)
{
    const struct sim_queue *queue = &world->queues[key];
    int64_t since = rlock__max(queue->head_since, queue->free_at);
    const struct sim_client *second =
        queue->n > 1 ? sim_owner_client(world, view_of(queue->names[1])) : NULL;
    const struct sim_user *waiter = second != NULL ? find_waiter(second, queue->names[1]) : NULL;

    if (waiter != NULL && !queue->meddled &&
        world->now - rlock__max(since, waiter->began_at) > HEAD_WAITED_FOR &&
        hampered_until(second, key) < world->now - HEAD_WAITED_FOR) {
        sim_violate(world, "%s: is free for %lld us, and its head does not come", world->keys[key],
                    (long long)(world->now - since));
    }
}

/* Whether all count who hears a head: not soon after a server was started again, or another one may
 * be in its place, when others may not have subscribed yet. */
static bool are_settled(const struct sim_world *world)
{
    for (unsigned i = 0; i < world->config.n_clients; i++) {
        const struct sim_client *client = world->clients[i];
        int64_t moved_at = client->core.moved_at;

        if (moved_at != 0 && sim_clock(client) < moved_at + 10 * RLOCK__SECOND) {
            return false;
        }
    }
    return true;
}

/* Whoever comes, and may not have it, has looked at the head: a second look finds no dead one.
 * Where nobody counts who hears the head, as in a cluster, it is asked: anew after a failover,
 * which may take what it was asked. */
void sim_check_refused(const struct sim_user *user)
{
    struct sim_world *world = user->client->world;
    struct sim_queue *queue = &world->queues[user->key];
    bool counted = world->config.n_nodes == 1 && are_settled(world);
    bool asked = counted || asks_of(queue, 0) >= MOST_ASKS;
    int64_t dead = counted ? DEAD_SEEN : HEAD_SILENT + DEAD_SEEN;
    bool is_new = world->now < world->restored_until[user->key] + HEAD_SILENT + DEAD_SEEN;

    if ((world->config.kind->caps & RLOCK__CAP_QUEUES) == 0 || queue->n == 0 || queue->meddled ||
        queue->holder[0] != '\0' || !user->call.acquire.contended ||
        user->began_at <= queue->dead_since) {
        return;
    }
    if (queue->seen_dead == 0 || is_new) {
        queue->seen_dead = world->now;
    } else if (asked && user->began_at > queue->seen_dead + dead) {
        sim_violate(world, "%s: its head %s is dead for %lld us, and stands there",
                    world->keys[user->key], queue->names[0],
                    (long long)(world->now - queue->dead_since));
    }
}

/* At the end only the dead may be in a queue: nobody came to pass them over. And who left while the
 * queue was on one node and its scores on another; and whom a failover brought back, since no
 * replica acknowledges that somebody left. */
bool sim_queue_is_settled(const struct sim_world *world, const struct sim_key_info *key)
{
    unsigned lock = sim_key_of(world, key->name);

    if (world->config.n_nodes > 1 && lock < SIM_KEYS && world->queues[lock].meddled) {
        return true;
    }
    if (lock < SIM_KEYS && world->restored_until[lock] != 0) {
        return true;
    }
    for (size_t i = 0; i < key->n_items; i++) {
        struct sim_item_info item = sim_key_item(key, i);

        for (unsigned j = 0; j < world->config.n_clients; j++) {
            const struct sim_client *client = world->clients[j];

            if (client->may_kill && item.name.len > RLOCK__UUID_LEN &&
                memcmp(item.name.data, client->core.opts.uuid, RLOCK__UUID_LEN) == 0) {
                return false;
            }
        }
    }
    return true;
}

/* What stays at the end has an end, but for a queue in which peers alone stand. */
bool sim_queue_ends(const struct sim_world *world, const struct sim_key_info *key)
{
    unsigned lock = sim_key_of(world, key->name);
    bool ours = false;

    for (size_t i = 0; i < key->n_items; i++) {
        char name[SIM_OWNER_SIZE];

        copy(name, sim_key_item(key, i).name);
        ours |= !is_peer(name);
    }
    return !ours || key->pttl_ms >= 0 || (lock < SIM_KEYS && world->queues[lock].meddled);
}
