/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clients of a fixture's first server, locks of the fixture's kind on them, and threads that use
 * them. All end with the fixture. What the clients lost must have been expected by then.
 *
 * Time bounds are for a plain build and stretched by test_slack(); durations that a test waits for,
 * by test_ms().
 */
#ifndef RLOCK_TEST_CLIENTS_H
#define RLOCK_TEST_CLIENTS_H

#include "support/actor.h"
#include "support/fixture.h"
#include "support/waiting.h"

#define NAME "lock" /* of the locks that have no other */

/* A test with locks of the reentrant kind. */
extern const struct kind kind_reentrant;
#define LOCK_TEST(name, f) FIXTURE_WITH_TEST(name, f, .kind = &kind_reentrant)

/* The kinds of single locks. The last one has no fixed leases, and is not handed over. */
enum { KIND_NONREENTRANT = 1, KIND_READ = 5, KIND_PERMITS = 8, KIND_SEMAPHORE, SINGLE_KINDS };
enum { LEASED_KINDS = KIND_SEMAPHORE };
extern const struct kind single_kinds[SINGLE_KINDS];

/* Opens a client. opts: NULL for the defaults; url, TLS files and callbacks are filled in where not
 * given, losses are recorded. */
struct rlock_client *client_open(struct fixture *f);
struct rlock_client *client_open_with(struct fixture *f, const struct rlock_client_opts *opts);
struct rlock_client *client_open_renewing(struct fixture *f, int64_t renewed_lease_ms);
void client_close(struct fixture *f, struct rlock_client *client);
/* The options of client_open_with(), filled in. For processes of their own. */
struct rlock_client_opts client_opts(const struct fixture *f, const struct rlock_client_opts *opts);

/* A lock of the fixture's kind, or a rival of it, named NAME or as given. */
struct rlock_handle *lock_new(struct fixture *f, struct rlock_client *client);
struct rlock_handle *rival_new(struct fixture *f, struct rlock_client *client);
struct rlock_handle *lock_named(struct fixture *f, struct rlock_client *client, const char *name);
struct rlock_handle *lock_with(struct fixture *f, struct rlock_client *client, const char *name,
                               const struct rlock_opts *opts);

/* Takes and gives back a lock of each kind under so many names. */
void pass_through_kinds(struct rlock_client *client, size_t names);

/* A thread of the fixture's. */
struct actor *actor_open(struct fixture *f);

/* ---- a child process that takes the lock NAME and holds it until it is killed ---- */

struct victim {
    const struct fixture *f;
    new_fn *make;
    int64_t renewed_lease_ms;
};

/* To be spawned before the process has threads. */
struct test_child *victim_spawn(const struct victim *victim);
/* Waits up to 10 s until it has the lock. */
void victim_await(struct test_child *child);
/* Kills it, and returns when. */
int64_t victim_kill(struct test_child *child);

/* For fixture_close(): frees the actors and locks, and closes the clients. */
void clients_close(struct fixture *f);

/* ---- what is known ---- */

/* Waits until that many calls of the client wait for a lock; up to 10 s. */
void await_waiting(struct rlock_client *client, size_t n);

/* What the server says of a lock: whether it is held, and its TTL. */
bool is_locked(struct rlock_handle *lock);
int64_t ttl_of(struct rlock_handle *lock);

/* Waits up to 10 s for the next loss that was not yet expected, and checks its reason (0: any).
 * Returns when it was told. */
#define expect_loss(f, reason) expect_loss_at(f, reason, __FILE__, __LINE__)
int64_t expect_loss_at(struct fixture *f, enum rlock_reason reason, const char *file, int line);
/* The loss that was expected last. */
const struct rlock_loss *last_loss(const struct fixture *f);
/* How many were told, ever. */
size_t losses_told(struct fixture *f);
/* Forgets those that were told so far: for tests that provoke more than they can count. */
void forgive_losses(struct fixture *f);

#endif
