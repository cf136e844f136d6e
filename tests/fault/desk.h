/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A desk where stories are played again and again, each time with a client of its own, and in the
 * n-th play the n-th allocation fails, until one comes to its end without. What a story calls
 * survives that, or says RLOCK_ENOMEM and has done nothing; the client works on, on the same
 * connection, and so does everybody else.
 */
#ifndef RLOCK_TEST_FAULT_DESK_H
#define RLOCK_TEST_FAULT_DESK_H

#include <stdatomic.h>

#include "fault/scarce.h"
#include "support/user.h"

#define N_SERVERS 3

struct desk_kind {
    const char *name;
    new_fn *make, *make_rival;
    bool nests;
    bool renews; /* in a way of its own */
    bool waits;  /* the same */
};

/* Where a story is played: the client that lacks memory once, and a rival that does not. */
struct desk {
    struct fixture f;
    struct test_server *servers[N_SERVERS]; /* the first is the fixture's */
    size_t n_servers;
    const struct desk_kind *kind;
    int64_t lease_ms; /* of the client's renewed holds */
    struct rlock_client *clients[N_SERVERS], *rival_clients[N_SERVERS];
    struct rlock_handle *lock, *other, *rival;
    _Atomic unsigned int losses;
    long n;           /* the allocation that fails */
    int64_t ran_us;   /* how long the story did, in this play */
    int repeats;      /* of this play so far: it ended late, which says nothing of memory */
    char detail[320]; /* why the story ended otherwise than it should */
};

struct story {
    void (*prepare)(struct desk *desk); /* with memory; NULL nothing */
    int (*run)(struct desk *desk);      /* with one allocation less; returns the first code */
    void (*check)(struct desk *desk, int code); /* with memory again; NULL nothing */
    bool hurried;                               /* its wait ends soon, perhaps before an answer */
    bool cold;                                  /* run opens the client itself */
    int asks;                                   /* connections that run makes to ask something */
    int64_t lease_ms;
};

void desk_open(struct desk *desk, size_t n_servers);
void desk_close(struct desk *desk);
int desk_open_client(struct desk *desk, size_t server, int64_t lease_ms,
                     struct rlock_client **ret_client);
/* Closes the client that lacks memory, and frees its locks. */
void desk_close_clients(struct desk *desk);
/* Plays a story until no allocation is left to fail, with locks that are made so. */
void desk_play(struct desk *desk, const struct story *story, const char *what,
               void (*make)(struct desk *desk), void (*make_rival)(struct desk *desk));

#endif
