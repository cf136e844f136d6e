/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where calling threads wait: in lots of 32 places. A lot is a futex, and a place a bit of it. So
 * one system call wakes all that are to be woken in a lot, and no other one. Only if more threads
 * wait than there are places do some share one, and are woken for nothing.
 *
 * Each call that wakes is one at whose end the kernel may prefer whom it woke to the thread that
 * wakes. So one call for all saves a switch for each as well.
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

#define RLOCK__LOTS 16U
#define RLOCK__PLACES (32U * RLOCK__LOTS)

/* How often somebody was woken in each. */
struct rlock__lots {
    atomic_int woken[RLOCK__LOTS];
};

struct rlock__parker {
    atomic_int signal;                 /* enum rlock__park */
    struct rlock__parker *prev, *next; /* in client.parked, or client.woken */
    bool parked;                       /* in the first of them */
    unsigned place;                    /* where it is parked */
    bool keeps;                        /* it is the leader, of one client at least */
    int64_t until; /* what it planned when it began to be, and when; 0: nothing */
    int64_t planned_at;
};

enum rlock__park {
    RLOCK__PARK_NONE,
    RLOCK__PARK_KEEP, /* keep watch from now on */
    RLOCK__PARK_DONE, /* the call is complete */
};

/* Sleeps while the word has this value; may return at any time. */
static inline void rlock__futex_wait(atomic_int *word, int value)
{
    (void)syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

/* Wakes one who sleeps over it. It may be gone by now: this touches its address only. */
static inline void rlock__futex_wake(atomic_int *word)
{
    (void)syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

/* Waits until there is a signal. */
static inline void rlock__park(struct rlock__lots *lots, struct rlock__parker *parker)
{
    atomic_int *woken = &lots->woken[parker->place / 32];
    int before = atomic_load(woken);

    while (atomic_load_explicit(&parker->signal, memory_order_acquire) == RLOCK__PARK_NONE) {
        (void)syscall(SYS_futex, woken, FUTEX_WAIT_BITSET_PRIVATE, before, NULL, NULL,
                      1U << parker->place % 32);
        before = atomic_load(woken);
    }
}

/* Wakes those who are parked at these places of a lot, and whose signals were set. */
static inline void rlock__unpark(struct rlock__lots *lots, unsigned lot, unsigned places)
{
    atomic_int *woken = &lots->woken[lot];

    (void)atomic_fetch_add(woken, 1);
    (void)syscall(SYS_futex, woken, FUTEX_WAKE_BITSET_PRIVATE, INT_MAX, NULL, NULL, places);
}

#endif
