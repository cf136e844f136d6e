/* SPDX-License-Identifier: Apache-2.0 */
/* C only. The macros of 0.1 made structs, whose addresses were taken. Now they are pointers. */
#include <rlock/rlock.h>

void before(struct rlock_client **client, struct rlock_handle **lock);
void before(struct rlock_client **client, struct rlock_handle **lock)
{
    (void)rlock_client_open(&RLOCK_CLIENT_OPTS(.url = "u"), client);        /* C: error: value */
    (void)rlock_spin_new(*client, "a", &RLOCK_OPTS(.flags = 1 << 8), lock); /* C: error: value */
}
