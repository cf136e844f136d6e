/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Seats: an owner and a rival for a lock of each kind, as threads, for test_last_unlock.c.
 *
 * An owner takes its lock on one to three levels, uses it, and gives up all levels. It checks the
 * codes, and that it has nothing in the end. The rival takes the lock in between.
 */
#ifndef RLOCK_TEST_LIVE_SEATS_H
#define RLOCK_TEST_LIVE_SEATS_H

#include <stdatomic.h>

#include "support/user.h"
#include "support/waiter.h"

enum { SERVERS = 3, SEATS = 11, CODES = 32 /* more than there are */ };

/* A lock as a table row: its kind, and the servers that it is on. */
struct row {
    const char *name;
    new_fn *make, *make_rival; /* of the members */
    int (*join)(struct rlock_handle *const *, size_t, const struct rlock_opts *,
                struct rlock_handle **); /* NULL: a lock of one member */
    size_t first, step, n;               /* the members' servers */
    bool nests, reads;
};

/* What the seats see of what goes on around them. */
struct weather {
    struct fixture *f;
    int64_t lease_ms;        /* of a hold that is renewed; a fixed lease is at most twice as long */
    unsigned stopped;        /* a mask: the servers that are stopped for the whole round */
    _Atomic bool is_stopped; /* they are */
    _Atomic bool is_over;    /* the rivals end */
    _Atomic size_t n_blows;  /* servers stopped and connections cut, ever */
};

struct seat {
    struct weather *weather;
    const struct row *row;
    size_t cell; /* of the witness */
    struct rlock_handle *lock, *rival;
    pthread_t owner_thread, rival_thread;
    uint64_t owner; /* 0: the thread */
    uint64_t random, rival_random;
    _Atomic size_t grants, rival_grants;
    _Atomic size_t unlocks[CODES]; /* by code */
    _Atomic bool is_over;          /* the owner has given up all levels */
};

unsigned draw(uint64_t *random, unsigned n);
void pass_ms(int64_t ms);

/* Makes the locks of all seats. */
void seats_open(struct seat *seats, struct weather *weather, const struct user *user,
                const struct user *rival, uint64_t seed);
/* Says what became of them, and frees the locks. Fails where nothing was granted or in doubt. */
void seats_close(struct seat *seats);

/* One round: the threads begin; whether every owner has given up; the threads end. */
void seats_begin(struct seat *seats);
bool seats_have_given_up(const struct seat *seats);
void seats_join_owners(struct seat *seats);
void seats_end_rivals(struct seat *seats);

/* How many keys of the locks there are on the servers that run; says which. */
size_t seats_keys(const struct seat *seats, bool says);

#endif
