/* SPDX-License-Identifier: Apache-2.0 */
#include "drive/send_lock.h"

#include "drive/park.h"

/* What the word says; 0 it is free. */
enum {
    TAKEN = 1,
    WISH = 2,   /* somebody left one */
    WAITED = 4, /* somebody may sleep until it is given up */
};

/* Who has slept does not know whether others do. */
RLOCK__ALONE void rlock__send_lock_take(struct rlock__send_lock *lock)
{
    int word;

    if (rlock__send_lock_try(lock)) {
        return;
    }
    while (((word = atomic_fetch_or(&lock->word, TAKEN | WAITED)) & TAKEN) != 0) {
        rlock__futex_wait(&lock->word, word | WAITED);
    }
}

RLOCK__ALONE bool rlock__send_lock_try(struct rlock__send_lock *lock)
{
    int free = 0;

    return atomic_compare_exchange_strong(&lock->word, &free, TAKEN);
}

RLOCK__ALONE bool rlock__send_lock_wish(struct rlock__send_lock *lock)
{
    return (atomic_fetch_or(&lock->word, TAKEN | WISH) & TAKEN) == 0;
}

bool rlock__send_lock_give(struct rlock__send_lock *lock)
{
    int word = TAKEN;

    while ((word & WISH) == 0) {
        if (atomic_compare_exchange_weak(&lock->word, &word, 0)) {
            if ((word & WAITED) != 0) {
                rlock__futex_wake(&lock->word);
            }
            return true;
        }
    }
    atomic_fetch_and(&lock->word, ~WISH);
    return false;
}
