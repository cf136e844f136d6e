/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Users of locks on a fixture: a client for each server, the lock "a" on each, and a diary of what
 * the clients tell. A user ends with its fixture, or before.
 *
 * Whoever works with a lock asks rlock_is_valid() before each step, as a program should: a step is
 * a visit to the fixture's witness.
 */
#ifndef RLOCK_TEST_USER_H
#define RLOCK_TEST_USER_H

#include "support/diary.h"
#include "support/fixture.h"

/* All options of a client as they are by default. */
#define USUAL ((struct rlock_client_opts){.size = sizeof(struct rlock_client_opts)})

struct user {
    struct fixture *f;
    union {
        struct rlock_client *client; /* the first, or only one */
        struct rlock_client *clients[FIXTURE_SERVERS];
    };
    struct rlock_handle *members[FIXTURE_SERVERS]; /* "a" on each server */
    struct rlock_handle *lock; /* on one server "a"; on several the RedLock of all members */
    struct diary diary;

    struct rlock_handle **more; /* of user_lock() */
    size_t n_more;
    struct user *prev, *next;
};

/* Opens a user with these options of its clients: where they have no URL, on the proxy if there is
 * one; where they have no authority for TLS, the servers' own. */
struct user *user_open(struct fixture *f, struct rlock_client_opts opts);
/* One that goes past the proxy, with a renewed lease of 500 ms and timeouts of 1 s, stretched. */
struct user *user_open_direct(struct fixture *f);
/* Ends a user; all that are still there, for fixture_close(). */
void user_close(struct user *user);
void users_close(struct fixture *f);

/* One more handle of the user's client; of that for a server. The user frees them. */
struct rlock_handle *user_lock(struct user *user, const char *name);
struct rlock_handle *user_lock_on(struct user *user, size_t server, const char *name);

/* A multi-lock of two handles, which the user frees. */
struct rlock_handle *user_multi(struct user *user, struct rlock_handle *a, struct rlock_handle *b);

/* How many losses it was told. */
size_t user_losses(struct user *user);
/* Waits up to 2 s for the n-th loss, and returns its reason; 0 if it does not come. */
int user_wait_loss(struct user *user, size_t n);
/* The loss that it was told last: there is one. */
const struct told *user_last_loss(struct user *user);
/* How many lines of its log contain a text. */
size_t user_logged(struct user *user, const char *text);

/* The calling thread's name for the witness, nobody else's in any process. */
uint64_t user_id(void);
/* One step in the critical section, if the calling thread may: whether it might. */
bool user_step(const struct user *user);
/* The same where another lock is held. */
bool user_step_on(const struct user *user, const struct rlock_handle *lock);
/* Steps until it may no more; returns when the last step began. */
int64_t user_work(const struct user *user);
/* Takes the lock as told, makes a step, gives the lock back; the first code that is not 0. */
int user_visit(const struct user *user, int64_t wait_ms, const struct rlock_take *take);
/* Takes the RedLock on every server, once each is connected: within 20 s for each. */
void user_take_everywhere(const struct user *user);

#endif
