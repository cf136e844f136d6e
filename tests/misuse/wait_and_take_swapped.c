/* SPDX-License-Identifier: Apache-2.0 */
/* The time to wait and the options change places. clang++ has one error for the call. */
#include <rlock/rlock.h>

int misuse(struct rlock_handle *lock, const struct rlock_take *take);
int misuse(struct rlock_handle *lock, const struct rlock_take *take)
{
    int code = rlock_lock_for(            /* clang++: error: no matching */
                              lock, take, /* C: warning: int-conversion; g++: error: convers */
                              500,        /* C: warning: int-conversion; g++: error: convers */
                              NULL);
    return code;
}
