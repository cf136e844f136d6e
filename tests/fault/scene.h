/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the tests of faults share: a scene of a server, a proxy that injects faults in front of it
 * and a witness of exclusion; and actors on it, each a client with the lock "a".
 *
 * A scene that closes has seen every actor gone, and checks that nothing is left: no overlap, no
 * key, no channel, no descriptor, no thread, and no SIGPIPE in between.
 *
 * Whoever works with the lock asks rlock_is_valid() before each step, as a program should: a step
 * is a visit to the witness.
 */
#ifndef RLOCK_TEST_FAULT_SCENE_H
#define RLOCK_TEST_FAULT_SCENE_H

#include <rlock/rlock.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "support/codes.h"
#include "support/proxy.h"
#include "support/run.h"
#include "support/server.h"
#include "support/witness.h"

#define SCENE_NAME "a"
#define SCENE_CHANNEL "redisson_lock__channel:{" SCENE_NAME "}"

/* How much later than its deadline a call may return here: the library promises 50 ms, and this
 * machine has other things to do. */
#define SCENE_LATE_MS 200

/*
 * A time that has to run out in a test, such as a lease: longer under a sanitizer, though not as
 * much as a deadline, which is there to be met.
 */
static inline int64_t scene_ms(int64_t ms)
{
    return test_slack() > 1 ? 3 * ms : ms;
}

/* In a child of fork: a sanitizer does not allow that. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define MAY_START_THREADS false
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define MAY_START_THREADS false
#endif
#ifndef MAY_START_THREADS
#define MAY_START_THREADS true
#endif

struct scene {
    struct test_server *server;
    struct proxy *proxy; /* NULL: none */
    struct witness *witness;
    size_t fds, threads; /* before it opened */
};

struct scene_opts {
    bool proxied;     /* plain, so that the proxy sees requests and replies; else as the leg says */
    bool tls_proxied; /* the proxy sees bytes alone */
    struct test_server_opts server;
};

void scene_open(struct scene *scene, const struct scene_opts *opts); /* NULL: all defaults */
void scene_close(struct scene *scene);

/* Starts the proxy of a scene that opened without: after children were forked, as it is a
 * thread. */
void scene_start_proxy(struct scene *scene);

/* The number of SIGPIPE since the first scene opened. */
int scene_sigpipes(void);

/* Whether the server has the lock, and the hold count of whoever has it there; 0 is free. */
bool scene_is_held(const struct scene *scene);
long long scene_count(const struct scene *scene);
/* What remains of the lock's lease on the server, as PTTL says it. */
long long scene_ttl(const struct scene *scene);
/* Waits until so many subscribe to the lock's channel. */
bool scene_wait_waiters(const struct scene *scene, int n);
/* Waits until the server has the lock, or has it no more. */
bool scene_wait_held(const struct scene *scene, bool held);
/* Waits until the lock was renewed once more: its lease falls below, and rises above,
 * nine tenths. */
bool scene_wait_renewed(const struct scene *scene, long long lease_ms);
/* The server's field of INFO, a number. */
long long scene_info(const struct scene *scene, const char *section, const char *field);
/* Somebody who is none of ours takes the lock by hand. ttl_ms 0: for ever. */
void scene_take_by_hand(const struct scene *scene, long long ttl_ms);

/* ---- Actors ---- */

#define DIARY_LOSSES 64

/* What a client was told by its callbacks. Threads: any. */
struct diary {
    pthread_mutex_t mutex;
    enum rlock_reason reasons[DIARY_LOSSES];
    int64_t lost_at_us[DIARY_LOSSES];
    size_t n_losses;
    int64_t lease_us; /* of renewed holds */
    char *log;
    size_t log_len;
    bool shows; /* prints what is logged */
};

struct actor {
    struct scene *scene;
    struct rlock_client *client;
    struct rlock *lock;
    struct diary diary;
};

/* Opens a client with these options: where they have no URL, on the proxy if there is one. */
void actor_open(struct actor *actor, struct scene *scene, struct rlock_client_opts opts);
/* One that goes past the proxy, with a renewed lease of 500 ms. */
void actor_open_direct(struct actor *actor, struct scene *scene);
void actor_close(struct actor *actor);
/* One more handle of the actor's client, to be freed. */
struct rlock *actor_lock(const struct actor *actor, const char *name);

size_t actor_losses(struct actor *actor);
/* Waits for the n-th loss and returns its reason; 0 if it does not come. */
enum rlock_reason actor_wait_loss(struct actor *actor, size_t n);
/* How many lines of the log contain a text. */
size_t actor_logged(struct actor *actor, const char *text);

/* The calling thread's name for the witness, nobody else's in any process. */
uint64_t actor_id(void);
/* One step in the critical section, if the calling thread may: whether it might. */
bool actor_step(const struct actor *actor);
/* Steps until it may no more; returns when the last step began. */
int64_t actor_work(const struct actor *actor);
/* Takes the lock as told, makes a step, gives the lock back; the first code that is not 0. */
int actor_visit(const struct actor *actor, const struct rlock_take *take);

/* ---- Codes and times ---- */

/* Fails unless rlock_detail() contains a text. */
void assert_detail(const char *part);
/* Fails unless rlock_detail() says in how many ms something is free, and that lies in a range. */
void assert_free_in(long long least_ms, long long most_ms);
/* Fails unless no more time has passed than this, and what lateness is allowed. */
void assert_within(int64_t since_us, int64_t ms);

/* ---- Calls in a thread of their own ---- */

/* A thread that takes the actor's lock as told, steps, and gives it back. */
struct waiter {
    pthread_t thread;
    const struct actor *actor;
    struct rlock_take take;
    int64_t took_us;     /* how long the taking took */
    int64_t answered_us; /* when it ended */
    int code, unlock_code;
    char detail[320];
    _Atomic bool done;
};

void waiter_start(struct waiter *waiter, const struct actor *actor, const struct rlock_take *take);
/* Waits for its end: what taking the lock returned. */
int waiter_join(struct waiter *waiter);

/* Threads that visit a lock again and again. */
struct crew {
    const struct actor *actor;
    const struct rlock_take *take; /* how; outlives the crew */
    size_t rounds;                 /* that end it; 0: crew_stop() does */
    unsigned int allowed;          /* besides 0: 1 << -code for each code that a call may return */
    size_t n;
    pthread_t threads[16];
    _Atomic bool stop;
    _Atomic size_t visits, failures; /* lock calls that returned 0, and others */
};

#define ALLOW(code) (1U << -(code))

void crew_start(struct crew *crew, size_t n);
void crew_stop(struct crew *crew);
/* Waits for the ends of those with rounds. */
void crew_join(struct crew *crew);

#endif
