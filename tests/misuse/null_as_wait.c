/* SPDX-License-Identifier: Apache-2.0 */
/* The time to wait is left out. clang++ takes NULL for the number 0, which is one attempt. */
#include <rlock/rlock.h>

int misuse(struct rlock_handle *lock);
int misuse(struct rlock_handle *lock)
{
    return rlock_lock_for(lock, NULL, NULL, NULL); /* C: warning: int-conv; g++: warning: NULL */
}
