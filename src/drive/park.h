/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calling threads park on the bits of a few futexes, the buckets: 32 bits each, and one futex for
 * all. One system call wakes the threads at any bits of a bucket, and no others. If more threads
 * park than there are bits, some share a bit, and have spurious wake-ups.
 *
 * After a system call that wakes a thread, the kernel may run that thread before the caller. With
 * one call for many threads the caller is interrupted once, and not once for each.
 */
#ifndef RLOCK_DRIVE_PARK_H
#define RLOCK_DRIVE_PARK_H

#include <limits.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#define RLOCK__BUCKETS 16U
#define RLOCK__BITS (32U * RLOCK__BUCKETS)

/* Counts the wake-ups in each bucket. */
struct rlock__buckets {
    atomic_int woken[RLOCK__BUCKETS];
};

/* A calling thread while its call is under way. */
struct rlock__waiter {
    atomic_int signal;                 /* enum rlock__park */
    struct rlock__waiter *prev, *next; /* in watch.parked, or watch.woken */
    bool parked;                       /* it is in watch.parked */
    unsigned bit;                      /* where it parks, counted through all buckets */
    bool keeps;                        /* it is the leader of one client, or of several */
    int64_t until;      /* what it planned when it became the leader; 0: it has not planned */
    int64_t planned_at; /* when it planned */
};

enum rlock__park {
    RLOCK__PARK_NONE,
    RLOCK__PARK_KEEP, /* keep watch from now on */
    RLOCK__PARK_DONE, /* the call is complete */
};

/* Sleeps while the word has this value. May return at any time. */
static inline void rlock__futex_wait(atomic_int *word, int value)
{
    (void)syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

/* Wakes one thread that sleeps on the word. The word may be freed by now: the kernel uses its
 * address only. */
static inline void rlock__futex_wake(atomic_int *word)
{
    (void)syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

/* Sleeps until there is a signal. */
static inline void rlock__park(struct rlock__buckets *buckets, struct rlock__waiter *waiter)
{
    atomic_int *woken = &buckets->woken[waiter->bit / 32];
    int before = atomic_load(woken);

    while (atomic_load_explicit(&waiter->signal, memory_order_acquire) == RLOCK__PARK_NONE) {
        (void)syscall(SYS_futex, woken, FUTEX_WAIT_BITSET_PRIVATE, before, NULL, NULL,
                      1U << waiter->bit % 32);
        before = atomic_load(woken);
    }
}

/* Wakes the threads that park at these bits of a bucket. Their signals were set before. */
static inline void rlock__unpark(struct rlock__buckets *buckets, unsigned bucket, unsigned bits)
{
    atomic_int *woken = &buckets->woken[bucket];

    (void)atomic_fetch_add(woken, 1);
    (void)syscall(SYS_futex, woken, FUTEX_WAKE_BITSET_PRIVATE, INT_MAX, NULL, NULL, bits);
}

#endif
