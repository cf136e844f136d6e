/* SPDX-License-Identifier: Apache-2.0 */
/*
 * choices [--seed N] [--seeds COUNT]
 *
 * Simulates clients that choose a primary by the answers of Sentinels (topology/choice.h), from
 * seed N on. Sentinels fail, miss failovers, lose their memory, and come to watch another server;
 * one of each client's URL may belong to another deployment. A seed that fails prints itself.
 *
 * A client never uses a server of the other deployment. It never goes to a server with a lower
 * epoch while it may have a lease at the one before, unless the server was promoted from that one.
 * When all Sentinels have agreed for a minute, it uses what they name, unless one of the other
 * deployment speaks against a lower epoch.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "topology/choice.h"

enum { SENTINELS = 5, CLIENTS = 2, SERVERS = 64, STEPS = 400, FOREIGN = 0, NOBODY = -1 };
#define LEASE (30 * RLOCK__SECOND)
#define CALM (75 * RLOCK__SECOND) /* of which the last is long enough to end every wait */

/* Servers are never used again under the same number. The first is of another deployment. */
struct server {
    bool is_primary;
    int parent; /* the one that it was promoted from */
};

struct sentinel {
    bool is_up, is_foreign;
    int server;
    int64_t epoch;
    int64_t hears_at; /* when it takes over the others' latest configuration */
};

struct client {
    struct rlock__choice choice;
    struct rlock__evidence evidence;
    int64_t round_at;
    int64_t leased_at; /* when it last used the server that it knows */
    int64_t asked_at;  /* when that server last told its id */
    int id;            /* that id; NOBODY none */
};

static struct world {
    uint64_t random;
    int64_t now;
    size_t n_sentinels, n_servers;
    struct server servers[SERVERS];
    struct sentinel sentinels[SENTINELS];
    struct client clients[CLIENTS];
    int primary; /* that all Sentinels of our deployment would name, had they heard */
    int64_t epoch;
    const char *wrong; /* NULL: nothing yet */
} w;

static int64_t below(int64_t n)
{
    return rlock__random_below(&w.random, n);
}

static bool chance(int percent)
{
    return below(100) < percent;
}

/* ---- Servers and Sentinels ---- */

static int add_server(int parent)
{
    w.servers[w.n_servers] = (struct server){.is_primary = true, .parent = parent};
    return (int)w.n_servers++;
}

/* All Sentinels of ours come to know what is new, one after the other. */
static void spread(int64_t within)
{
    for (size_t i = 0; i < w.n_sentinels; i++) {
        w.sentinels[i].hears_at = w.now + below(within);
    }
}

static void hear(struct sentinel *sentinel)
{
    if (sentinel->is_up && !sentinel->is_foreign && w.now >= sentinel->hears_at) {
        sentinel->server = w.primary;
        sentinel->epoch = w.epoch;
        sentinel->hears_at = RLOCK__NEVER;
    }
}

/* A replica is promoted; the primary before it may go on for a while. */
static void fail_over(void)
{
    w.servers[w.primary].is_primary = chance(30);
    w.primary = add_server(w.primary);
    w.epoch++;
    spread(chance(80) ? RLOCK__SECOND : 20 * RLOCK__SECOND);
}

/* All Sentinels count from 0 again, and watch the same primary or one that has nothing of it. */
static void lose_memory(bool other)
{
    w.primary = other ? add_server(NOBODY) : w.primary;
    w.epoch = 0;
    spread(chance(50) ? 1 : 40 * RLOCK__SECOND);
}

static void turn_sentinel(void)
{
    struct sentinel *sentinel = &w.sentinels[below((int64_t)w.n_sentinels)];

    sentinel->is_up = !sentinel->is_up;
    sentinel->hears_at = w.now + below(3 * RLOCK__SECOND); /* until then it says what it knew */
}

/* ---- Clients ---- */

static struct rlock__primary place_of(int server, int64_t epoch)
{
    struct rlock__primary place = {.port = 6379, .epoch = epoch};

    (void)snprintf(place.host, sizeof(place.host), "%d", server);
    return place;
}

static int server_at(const struct rlock__primary *place)
{
    return place->host[0] != '\0' ? atoi(place->host) : NOBODY;
}

static void check_move(const struct client *client, const struct rlock__primary *before)
{
    int from = server_at(before), to = server_at(&client->choice.known);

    if (to == FOREIGN) {
        w.wrong = "a client uses a server of another deployment";
    } else if (from != NOBODY && from != to && client->choice.known.epoch < before->epoch &&
               w.servers[to].parent != from && w.now < client->leased_at + LEASE) {
        w.wrong = "a client may have a lease at another server than it uses";
    }
}

/* A server proves its descent by the id of its parent's replication. */
static void look_for_evidence(struct client *client)
{
    int known = server_at(&client->choice.known), probe = server_at(&client->choice.probe);

    if (known != NOBODY && w.servers[known].is_primary &&
        w.now >= client->asked_at + 10 * RLOCK__SECOND) {
        client->asked_at = w.now;
        client->id = known;
    }
    client->evidence = (struct rlock__evidence){.is_primary = false};
    if (probe != NOBODY && chance(80)) {
        client->evidence.of = client->choice.probe;
        client->evidence.is_primary = w.servers[probe].is_primary;
        client->evidence.descends = client->id != NOBODY && w.servers[probe].parent == client->id;
    }
}

static void play_round(struct client *client, bool is_calm)
{
    const struct rlock__primary before = client->choice.known;
    struct rlock__vote votes[SENTINELS];
    struct rlock__round round = {.votes = votes, .evidence = &client->evidence, .now = w.now};
    enum rlock__verdict verdict;

    for (size_t i = 0; i < w.n_sentinels; i++) {
        const struct sentinel *sentinel = &w.sentinels[i];

        if (sentinel->is_up && (is_calm || chance(97))) {
            votes[round.n++] =
                (struct rlock__vote){.primary = place_of(sentinel->server, sentinel->epoch),
                                     .sentinel = "s",
                                     .knows_peer = !sentinel->is_foreign};
        }
    }
    round.known_is_out = before.host[0] != '\0' && !w.servers[server_at(&before)].is_primary;
    round.lease_us = rlock__max(client->leased_at + LEASE - w.now, 0);
    verdict = rlock__choice_round(&client->choice, &round);
    check_move(client, &before);
    if (server_at(&before) != server_at(&client->choice.known)) {
        client->id = NOBODY;
        client->asked_at = -10 * RLOCK__SECOND;
    }
    if (!rlock__choice_suspends(&client->choice) && client->choice.known.host[0] != '\0' &&
        w.servers[server_at(&client->choice.known)].is_primary) {
        client->leased_at = w.now; /* it takes a lock there, or renews one */
    }
    look_for_evidence(client);
    client->round_at = w.now + (verdict == RLOCK__DECIDED ? RLOCK__SECOND : 100 * RLOCK__MS);
}

/* ---- A seed ---- */

static void begin(uint64_t seed)
{
    memset(&w, 0, sizeof(w));
    w.random = seed * 2654435761U + 1;
    w.now = 1000 * RLOCK__SECOND;
    (void)add_server(NOBODY); /* FOREIGN */
    w.primary = add_server(NOBODY);
    w.epoch = below(5);
    w.n_sentinels = chance(70) ? 3 : (size_t)(1 + below(SENTINELS));
    for (size_t i = 0; i < w.n_sentinels; i++) {
        w.sentinels[i] = (struct sentinel){
            .is_up = true, .server = w.primary, .epoch = w.epoch, .hears_at = RLOCK__NEVER};
    }
    if (w.n_sentinels >= 3 && chance(50)) {
        w.sentinels[0].is_foreign = true;
        w.sentinels[0].server = FOREIGN;
        w.sentinels[0].epoch = below(20);
    }
    for (size_t i = 0; i < CLIENTS; i++) {
        w.clients[i] = (struct client){
            .choice = {.n_sentinels = w.n_sentinels}, .id = NOBODY, .leased_at = -LEASE};
    }
}

static void advance(int64_t us, bool is_calm)
{
    w.now += us;
    for (size_t i = 0; i < w.n_sentinels; i++) {
        hear(&w.sentinels[i]);
    }
    for (size_t i = 0; i < CLIENTS && w.wrong == NULL; i++) {
        if (w.now >= w.clients[i].round_at) {
            play_round(&w.clients[i], is_calm);
        }
    }
}

static void disturb(void)
{
    int64_t what = below(100);

    if (w.n_servers == SERVERS) {
        return;
    }
    if (what < 3) {
        fail_over();
    } else if (what < 5) {
        lose_memory(what == 4);
    } else if (what < 9) {
        turn_sentinel();
    }
}

/* All is well for a while. */
static void calm_down(void)
{
    w.servers[w.primary].is_primary = true;
    for (size_t i = 0; i < w.n_sentinels; i++) {
        w.sentinels[i].is_up = true;
        w.sentinels[i].hears_at = w.now;
    }
    for (int64_t end = w.now + CALM; w.now < end && w.wrong == NULL;) {
        advance(100 * RLOCK__MS, true);
    }
    for (size_t i = 0; i < CLIENTS && w.wrong == NULL; i++) {
        const struct rlock__primary *known = &w.clients[i].choice.known;
        bool denied = w.sentinels[0].is_foreign && w.sentinels[0].epoch >= known->epoch &&
                      w.epoch < known->epoch;

        if (server_at(known) != w.primary && !denied) {
            w.wrong = "a client does not use the primary that all Sentinels name";
        }
    }
}

static bool run(uint64_t seed)
{
    unsigned step = 0;

    begin(seed);
    for (; step < STEPS && w.wrong == NULL; step++) {
        disturb();
        advance(chance(10) ? below(40 * RLOCK__SECOND) : below(300 * RLOCK__MS), false);
    }
    if (w.wrong == NULL) {
        calm_down();
    }
    if (w.wrong != NULL) {
        printf("seed %llu fails after %u steps: %s\n", (unsigned long long)seed, step, w.wrong);
    }
    return w.wrong == NULL;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"seed", required_argument, NULL, 's'}, {"seeds", required_argument, NULL, 'n'}, {0}};
    uint64_t seed = 1, seeds = 1000;
    int option;

    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (option != 's' && option != 'n') {
            return EXIT_FAILURE;
        }
        *(option == 's' ? &seed : &seeds) = strtoull(optarg, NULL, 10);
    }
    for (uint64_t end = seed + seeds; seed < end; seed++) {
        if (!run(seed)) {
            return EXIT_FAILURE;
        }
    }
    printf("%llu seeds, ok\n", (unsigned long long)seeds);
    return EXIT_SUCCESS;
}
