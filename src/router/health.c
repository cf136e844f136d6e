/* SPDX-License-Identifier: Apache-2.0 */
#include "router/health.h"

#include <stdio.h>
#include <string.h>

#include "lock/server/listing.h"

/* Within this time Sentinels list a primary that was replaced. */
#define FORMER_US (30 * RLOCK__SECOND)
#define SENTINELS_MOST 64

/* What those Sentinels say that name the node. */
struct voices {
    const struct rlock__standbys *standbys[SENTINELS_MOST];
    int64_t alive_at[SENTINELS_MOST];
    size_t n, n_alive, n_down;
    int64_t n_replicas;
};

static void place_of(const struct rlock__node *node, char out[static RLOCK__STANDBY_PLACE])
{
    int len = snprintf(out, RLOCK__STANDBY_PLACE, "%s:%u", node->uri.host, node->uri.port);

    if (len < 0 || len >= RLOCK__STANDBY_PLACE) {
        out[0] = '\0';
    }
}

void rlock__health_moves(struct rlock__health *health, const struct rlock__node *before,
                         struct rlock__node *node, int64_t now)
{
    rlock__replicas_reset(&node->server.replicas);
    if (before != NULL) {
        place_of(before, health->former);
        health->former_until = now + FORMER_US;
        health->was_down = health->is_down;
    }
    health->is_down = false;
}

static void hear(struct voices *voices, const struct rlock__sentinel *sentinel)
{
    const struct rlock__primary *said = &sentinel->said;

    voices->standbys[voices->n++] = &sentinel->standbys;
    voices->n_down += said->is_down;
    voices->n_replicas = rlock__max(voices->n_replicas, said->replicas);
    if (said->silence_ms >= 0) {
        voices->alive_at[voices->n_alive++] =
            sentinel->said_at - rlock__reported_ms(said->silence_ms);
    }
}

/* The one that was replaced is a replica, as soon as it is there again. */
static size_t add_former(struct rlock__health *health, struct rlock__replica_word words[], size_t n,
                         int64_t now)
{
    for (size_t i = 0; i < n; i++) {
        if (strcmp(words[i].place, health->former) == 0) {
            words[i].was_replaced = health->was_down;
            health->former[0] = '\0';
        }
    }
    if (health->former[0] == '\0' || now >= health->former_until) {
        return n;
    }
    words[n] = (struct rlock__replica_word){.is_held_down = health->was_down,
                                            .was_replaced = health->was_down};
    memcpy(words[n].place, health->former, sizeof(health->former));
    return n + 1;
}

/* A Sentinel that promotes a replica names it already, and lists it still. */
static size_t put_words(const struct rlock__standbys *all, const struct rlock__node *node,
                        size_t n_asked, struct rlock__replica_word words[])
{
    char own[RLOCK__STANDBY_PLACE];
    size_t n = 0;

    place_of(node, own);
    for (size_t i = 0; i < all->n; i++) {
        const struct rlock__standby *it = &all->each[i];

        if (strcmp(it->place, own) != 0) {
            words[n] = (struct rlock__replica_word){.is_barred = it->is_barred,
                                                    .is_held_down = it->is_down,
                                                    .is_free = it->is_free,
                                                    .is_unlinked = it->is_unlinked,
                                                    .n_down = it->n_down,
                                                    .n_asked = (unsigned)n_asked};
            memcpy(words[n++].place, it->place, sizeof(it->place));
        }
    }
    return n;
}

static void tell_missed(struct rlock__health *health, struct rlock__node *node)
{
    struct rlock__core *core = node->server.core;

    if (!health->is_missed && core->opts.acks != RLOCK_ACKS_OFF) {
        rlock__note(core, RLOCK_LOG_WARNING, rlock__about("replicas", node->address, 0),
                    "the Sentinels do not list the replicas of server %s (is SENTINEL REPLICAS "
                    "permitted?): the number of replicas counts, and one that is down counts too",
                    node->address);
    }
    health->is_missed = true;
}

bool rlock__health_learn(struct rlock__health *health, struct rlock__node *node,
                         const struct rlock__sentinel sentinels[], size_t n, int64_t round_at,
                         int64_t now)
{
    struct rlock__replica_word words[RLOCK__STANDBYS + 1];
    struct rlock__server *server = &node->server;
    struct voices voices = {.n = 0};
    struct rlock__standbys all;
    bool changes;

    for (size_t i = 0; i < n && voices.n < SENTINELS_MOST; i++) {
        const struct rlock__primary *said = &sentinels[i].said;

        if (sentinels[i].said_at >= round_at && said->port == node->uri.port &&
            strcmp(said->host, node->uri.host) == 0) {
            hear(&voices, &sentinels[i]);
        }
    }
    health->is_down = 2 * voices.n_down > n;
    rlock__standbys_merge(voices.standbys, voices.n, n, &all);
    if (all.is_known) {
        size_t n_words = put_words(&all, node, n, words);

        n_words = add_former(health, words, n_words, now);
        changes = rlock__listing_known(server, words, n_words, now);
    } else {
        tell_missed(health, node);
        changes = rlock__listing_known(server, NULL, (size_t)voices.n_replicas, now);
    }
    rlock__replicas_alive(&server->replicas,
                          rlock__alive_by_most(voices.alive_at, voices.n_alive, n));
    return changes;
}
