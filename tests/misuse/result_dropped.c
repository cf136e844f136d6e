/* SPDX-License-Identifier: Apache-2.0 */
/* Nobody looks at whether the lock was taken. A cast to void satisfies clang, and not gcc. */
#include <rlock/rlock.h>

void misuse(struct rlock_handle *lock);
void misuse(struct rlock_handle *lock)
{
    rlock_lock(lock);                    /* all: warning: unused-result */
    rlock_lock_for(lock, 1, NULL, NULL); /* all: warning: unused-result */
    rlock_guard_lock(lock);              /* all: warning: unused-result */
    (void)rlock_lock(lock);              /* gcc: warning: unused-result; g++: warning: unused */
}
