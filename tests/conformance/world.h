/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a conformance case works with: a server of its own, clients and locks of the kind under
 * test, threads that do what they are told, and a record of losses. What it opens here is closed
 * after it, and then nothing may be left: no key, channel, descriptor, thread or unexpected loss.
 *
 * Time bounds are for a plain build and stretched by test_slack(); durations that a case waits for,
 * by conf_ms().
 */
#ifndef RLOCK_TEST_CONFORMANCE_WORLD_H
#define RLOCK_TEST_CONFORMANCE_WORLD_H

#include "kinds.h"

#include "support/run.h"
#include "support/server.h"
#include "support/test.h"
#include "support/waiting.h"
#include "support/witness.h"

#define NAME "lock" /* of the locks that have no other */

struct world;

/* Sets up and takes down: for main.c alone. */
struct world *world_start(const struct conf_kind *kind);
void world_stop(struct world *w);
/* The same for tests of one kind, the first of the table: cmocka's setup and teardown. */
int world_set_up(void **state);
int world_tear_down(void **state);
#define WORLD_TEST(name, w) TEST_WITH(world_set_up, world_tear_down, name, struct world *w)

const struct conf_kind *conf_kind(const struct world *w);
bool conf_can(const struct world *w, unsigned int what);
struct test_server *conf_server(const struct world *w);

/* How long a waiter of this kind usually takes to notice that a lock is free. */
int64_t conf_wake_ms(const struct world *w);

/* A duration that a case waits for: three times as long where threads run slowly. */
int64_t conf_ms(int64_t ms);

/* ---- clients and locks ---- */

/* Opens a client. opts: NULL for the defaults; url, TLS files and callbacks are filled in where not
 * given, losses are recorded. Ended by the world, unless by conf_close(). */
struct rlock_client *conf_client(struct world *w);
struct rlock_client *conf_client_with(struct world *w, const struct rlock_client_opts *opts);
struct rlock_client *conf_client_renewing(struct world *w, int64_t renewed_lease_ms);
void conf_close(struct world *w, struct rlock_client *client);

/* The options of conf_client_with(), filled in. For processes of their own. */
struct rlock_client_opts conf_opts(const struct world *w, const struct rlock_client_opts *opts);

/* A lock of the kind under test, or a rival of it, named NAME or as given. Freed by the world. */
struct rlock *conf_lock(struct world *w, struct rlock_client *client);
struct rlock *conf_rival(struct world *w, struct rlock_client *client);
struct rlock *conf_lock_named(struct world *w, struct rlock_client *client, const char *name);
struct rlock *conf_lock_with(struct world *w, struct rlock_client *client, const char *name,
                             const struct rlock_opts *opts);

/* rlock_lock_with() by name, without a grant: TAKE(lock, .wait_ms = 100). */
#define TAKE(lock, ...) rlock_lock_with(lock, RLOCK_TAKE(__VA_ARGS__), NULL)

/* Fails unless the code is the one expected, naming both and the detail. */
#define assert_code(code, expected) conf_assert_code(code, expected, __FILE__, __LINE__)
void conf_assert_code(int code, int expected, const char *file, int line);

/* ---- time ---- */

/* How late a thing may come that is measured once, on a machine with other work to do. */
#define LATE_MS 500

/* Fails unless a time lies between. most_ms is stretched. */
#define assert_took(us, least_ms, most_ms)                                                         \
    conf_assert_took(us, least_ms, most_ms, __FILE__, __LINE__)
void conf_assert_took(int64_t us, int64_t least_ms, int64_t most_ms, const char *file, int line);

/* The same for rounds of one thing on a busy machine: the middle one within usual_ms, all within
 * most_ms. */
#define assert_usually_took(us, n, usual_ms, most_ms)                                              \
    conf_assert_usually_took(us, n, usual_ms, most_ms, __FILE__, __LINE__)
void conf_assert_usually_took(int64_t *us, size_t n, int64_t usual_ms, int64_t most_ms,
                              const char *file, int line);

/* Waits in steps of a millisecond while `expr` is true; its value is whether it stayed so. */
#define STAYS(expr, ms)                                                                            \
    __extension__({                                                                                \
        const int64_t stays_end_us_ = test_now_us() + (ms)*1000;                                   \
        bool stays_ = (expr);                                                                      \
        while (stays_ && test_pause_until(stays_end_us_)) {                                        \
            stays_ = (expr);                                                                       \
        }                                                                                          \
        stays_;                                                                                    \
    })

/* ---- threads that do what they are told, one thing after the other ---- */

struct actor;
typedef int act_fn(struct rlock *lock, const struct rlock_take *take);

struct actor *conf_actor(struct world *w);
/* Lets it begin; take is copied. */
void actor_begin(struct actor *actor, act_fn *fn, struct rlock *lock,
                 const struct rlock_take *take);
bool actor_is_busy(struct actor *actor);
/* Waits for the end of what it began: the value. Dies after 30 s. */
int actor_end(struct actor *actor);
/* When that ended. */
int64_t actor_ended_us(const struct actor *actor);
/* Both. */
int actor_do(struct actor *actor, act_fn *fn, struct rlock *lock, const struct rlock_take *take);
/* Lets the thread exit, and waits for that. */
void actor_exit(struct actor *actor);
/* Sends it a signal. */
void actor_signal(struct actor *actor, int signal);

act_fn act_lock, act_take, act_unlock, act_is_valid, act_hold_count;
/* Waits for it without end, sees that it is valid, and unlocks. */
act_fn act_pass_through;

/* ---- what is known ---- */

/* Waits until that many do. */
void conf_await_waiting(struct rlock_client *client, size_t n);

/* What the server says of a lock: whether it is held, its TTL, its holders' count. */
bool conf_is_locked(struct rlock *lock);
int64_t conf_ttl(struct rlock *lock);

/* How many keys there are, not counting tokens, which stay. */
long long conf_keys(struct world *w);
/* Whether a key is there. */
bool conf_has_key(struct world *w, const char *key);

/* Says something on each channel that anybody listens to; how many listeners heard it. */
long long conf_publish(struct world *w, const char *message);

/* Counting the server's commands from here on: all those outside of scripts, and one of them. */
void conf_count_from_here(struct world *w);
long long conf_calls(struct world *w, const char *command);

/* Waits for the next loss that was not yet expected and checks its reason (0: any). Returns when it
 * was told. */
#define expect_loss(w, reason) conf_expect_loss(w, reason, 10000, __FILE__, __LINE__)
int64_t conf_expect_loss(struct world *w, enum rlock_reason reason, int64_t timeout_ms,
                         const char *file, int line);
/* The loss that was expected last; its name is gone. */
const struct rlock_loss *conf_last_loss(const struct world *w);
/* How many were told, ever. */
size_t conf_losses(struct world *w);
/* Forgets those that were told so far: for cases that provoke more than they can count. */
void conf_forgive_losses(struct world *w);

#endif
