/* SPDX-License-Identifier: Apache-2.0 */
/* Threads that take locks: once, and say how that went; or again and again. */
#ifndef RLOCK_TEST_WAITER_H
#define RLOCK_TEST_WAITER_H

#include "support/user.h"

#include <pthread.h>
#include <stdatomic.h>

/* A thread that takes a lock as told, and gives it back. */
struct waiter {
    pthread_t thread;
    _Atomic pid_t id;        /* the kernel's, 0 before it runs */
    const struct user *user; /* as whom it makes a step inside; NULL: it makes none */
    struct rlock_handle *lock;
    int64_t wait_ms;
    struct rlock_take take;
    int64_t took_us;     /* how long the taking took */
    int64_t answered_us; /* when it ended */
    int code, unlock_code;
    bool was_valid; /* when it had the lock */
    char detail[320];
    _Atomic bool done;
};

/* Starts one on a user's lock, or on another one. take is copied; NULL as in rlock_lock_for(). */
void waiter_start(struct waiter *waiter, const struct user *user, int64_t wait_ms,
                  const struct rlock_take *take);
void waiter_start_on(struct waiter *waiter, const struct user *user, struct rlock_handle *lock,
                     int64_t wait_ms, const struct rlock_take *take);
/* Waits for its end: what taking the lock returned. */
int waiter_join(struct waiter *waiter);
/* The same, and sees that it had the lock, that this was valid, and that the unlock returned 0. */
void waiter_passed(struct waiter *waiter);

/* Threads that visit a user's lock again and again. */
struct crew {
    int64_t wait_ms;      /* of each visit */
    size_t rounds;        /* that end it; 0: crew_stop() does */
    unsigned int allowed; /* besides 0: ALLOW() of each code that a call may return */
    const struct user *user;
    size_t n;
    pthread_t threads[16];
    _Atomic bool stop;
    _Atomic size_t visits, failures; /* lock calls that returned 0, and others */
};

#define ALLOW(code) (1U << -(code))

void crew_start(struct crew *crew, const struct user *user, size_t n);
void crew_stop(struct crew *crew);
/* Waits for the ends of those with rounds. */
void crew_join(struct crew *crew);

#endif
