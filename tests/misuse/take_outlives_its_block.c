/* SPDX-License-Identifier: Apache-2.0 */
/* RLOCK_TAKE() makes a struct that ends with its block. C only.
 * Only gcc finds it. */
#include <rlock/rlock.h>

int misuse(struct rlock_handle *lock);
int misuse(struct rlock_handle *lock)
{
    const struct rlock_take *take = NULL;

    {
        take = RLOCK_TAKE(.lease_ms = 20000);
    }
    return rlock_lock_for(lock, 0, take, NULL); /* gcc: warning: dangling-pointer */
}
