/* SPDX-License-Identifier: Apache-2.0 */
/* CALL ignores the result of a call that takes a lock: the compiler warns. Never run. */
#include <rlock/rlock.h>

void use_header(struct rlock_handle *lock);

void use_header(struct rlock_handle *lock)
{
    CALL;
}
