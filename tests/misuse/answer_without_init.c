/* SPDX-License-Identifier: Apache-2.0 */
/* The size of an answer is not set. Only gcc finds it. The library refuses sizes that cannot be. */
#include <rlock/rlock.h>

int grant(struct rlock_handle *lock);
int grant(struct rlock_handle *lock)
{
    struct rlock_grant granted;

    return rlock_lock_for(lock, 0, NULL, &granted); /* gcc: warning: uninit; g++: warning: uninit */
}

int info(struct rlock_handle *lock);
int info(struct rlock_handle *lock)
{
    struct rlock_info answer;

    return rlock_inspect(lock, &answer); /* gcc: warning: uninit; g++: warning: uninit */
}

int failure(void);
int failure(void)
{
    struct rlock_failure failed;

    return rlock_last_failure(&failed); /* gcc: warning: uninit; g++: warning: uninit */
}

int set(struct rlock_handle *lock);
int set(struct rlock_handle *lock)
{
    struct rlock_grant granted = RLOCK_GRANT_INIT;
    struct rlock_info answer;

    rlock_init(&answer, sizeof(answer));
    return rlock_lock_for(lock, 0, NULL, &granted) + rlock_inspect(lock, &answer) +
           rlock_lock_for(lock, 0, NULL, NULL);
}
