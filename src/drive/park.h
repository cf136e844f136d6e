/* SPDX-License-Identifier: Apache-2.0 */
/* Where a calling thread waits: a futex of its own, so that waking one wakes no other. */
#ifndef RLOCK_DRIVE_PARK_H
#define RLOCK_DRIVE_PARK_H

#include <linux/futex.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

struct rlock__parker {
    atomic_int signal;                 /* enum rlock__park */
    struct rlock__parker *prev, *next; /* in client.parked, or client.woken */
    bool parked;                       /* in the first of them */
    bool keeps;                        /* it is the leader, of one client at least */
    int64_t until;                     /* what it planned when it began to be; 0: nothing */
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

/* Waits until there is a signal. */
static inline void rlock__park(struct rlock__parker *parker)
{
    while (atomic_load_explicit(&parker->signal, memory_order_acquire) == RLOCK__PARK_NONE) {
        rlock__futex_wait(&parker->signal, RLOCK__PARK_NONE);
    }
}

/*
 * Wakes whoever is parked at a signal that was set. The parker may be gone by now: this touches its
 * address only, and wakes at most somebody else for nothing.
 */
static inline void rlock__unpark(atomic_int *signal)
{
    (void)syscall(SYS_futex, signal, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

#endif
