/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The model at one table with the simulated server: whoever acts, acts on both, and they must say
 * the same. The commands are those that the kind builds, the replies are read by it; peers run
 * their own scripts. For cmocka.
 */
#ifndef RLOCK_TEST_FAIR_TABLE_H
#define RLOCK_TEST_FAIR_TABLE_H

#include "fair/model.h"
#include "lock/core.h"
#include "sim/server.h"

#define KEY "lock"

enum { ACTORS = 40, LEASE_MS = 2000 };

/* Who plays, and for how long. */
struct game {
    size_t n_ours, n_peers;
    int64_t slot, peers_wait;
    int turns;
};

enum standing { IDLE, WAITS, HOLDS };

struct actor {
    char name[MODEL_NAME];
    bool peer;
    enum standing standing;
    int64_t asleep_until;
    uint64_t conn; /* that hears its channel; 0 none */
    void *memo, *look_memo;
    struct model_watch watch, look;
    uint32_t depth;
};

struct table {
    struct model model;
    struct sim_server *server;
    uint64_t conn;
    struct rlock__core core;
    struct rlock__spec *spec;
    struct actor actors[ACTORS];
    int64_t peers_wait;
    uint64_t random, names;
    size_t n_actors;
    char *reply;
    size_t reply_len;
    uint64_t grants, n_ours, n_peers;
};

void table_begin(struct table *t, uint64_t seed, const struct game *game);
/* Frees all, and says what happened. */
void table_end(struct table *t);
/* Whether the server has exactly what the model says. */
void table_compare(struct table *t);
/* The server's clock is the model's. */
void table_tell_time(struct table *t);
/* A random number below n; whether something of that probability happens. */
int64_t table_below(struct table *t, int64_t n);
bool table_chance(struct table *t, int64_t percent);
/* Sends a command as a connection of the server's. words: the last one NULL. */
void table_send_words(struct table *t, uint64_t conn, const char *const *words);

void table_listen_to(struct table *t, struct actor *actor);
/* A new name, and nothing of the old one: it has left, or died. */
void table_be_idle(struct table *t, struct actor *actor);
void table_be_holder(struct table *t, struct actor *actor);
/* What an actor of ours can do; an attempt says whether it was granted. */
bool table_attempt(struct table *t, struct actor *actor, uint32_t count, bool waits);
void table_release(struct table *t, struct actor *actor);
void table_look(struct table *t, struct actor *actor);
/* What a peer can do. */
bool table_peer_attempt(struct table *t, struct actor *actor, bool waits);
void table_peer_leave(struct table *t, struct actor *actor);

#endif
