/* SPDX-License-Identifier: Apache-2.0 */
/* The public header alone, first in its file, with each macro used: compiled as C11 by the book, as
   C that C++ could read, and never run. */
#include <rlock/admin.h>
#include <rlock/latch.h>
#include <rlock/leader.h>
#include <rlock/rlock.h>
#include <rlock/stats.h>

int use_header(struct rlock_client *client, struct rlock_handle *lock);

int use_header(struct rlock_client *client, struct rlock_handle *lock)
{
    const struct rlock_client_opts *none = RLOCK_CLIENT_OPTS(.url = 0);
    const struct rlock_opts *opts = RLOCK_OPTS(.max_hold_ms = 60000);
    struct rlock_grant grant = RLOCK_GRANT_INIT;
    struct rlock_info info = RLOCK_INFO_INIT;
    struct rlock_stats stats = RLOCK_STATS_INIT;
    RLOCK_GUARD guard = rlock_guard_lock_for(lock, RLOCK_FOREVER, NULL);
    int code = rlock_client_open(none, &client);

    if (guard.code == RLOCK_EBUSY || code != RLOCK_OK) {
        return rlock_reentrant_new(client, "name", opts, &lock);
    }
    code = rlock_lock_for(lock, 500, RLOCK_TAKE(.lease_ms = 10000), &grant);
    return code + rlock_client_stats(client, &stats) + rlock_inspect(lock, &info) +
           RLOCK_VERSION[0];
}
