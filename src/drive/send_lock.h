/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lock on a client's link. Whoever has it sends for all. So a thread that has no more to do
 * than to have something sent does not wait for it: it leaves a wish, and who has the lock cannot
 * give it up before it has seen to that. A thread that reads waits.
 *
 * The word and the waiting: Ulrich Drepper, "Futexes Are Tricky" (2011), the second mutex. The wish
 * is ours.
 */
#ifndef RLOCK_DRIVE_SEND_LOCK_H
#define RLOCK_DRIVE_SEND_LOCK_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/guarded.h"

/* All zero is a free one. */
struct rlock__send_lock {
    atomic_int word;
};

/* Waits for it. */
void rlock__send_lock_take(struct rlock__send_lock *lock) RLOCK__LOCKS(send);
/* Returns whether it was free: then the caller has it. */
bool rlock__send_lock_try(struct rlock__send_lock *lock) RLOCK__TRY_LOCKS(true, send);
/* The same, and leaves a wish in any case: with who has it, or with the caller. */
bool rlock__send_lock_wish(struct rlock__send_lock *lock) RLOCK__TRY_LOCKS(true, send);
/* Gives it up. Where there is a wish, that is forgotten instead, and the caller has the lock still:
 * returns false. */
bool rlock__send_lock_give(struct rlock__send_lock *lock);

#endif
