/* SPDX-License-Identifier: Apache-2.0 */
/* The public header alone, first in its file, as C++11 and all that came after it see it. */
#include <rlock/admin.h>
#include <rlock/leader.h>
#include <rlock/rlock.h>
#include <rlock/stats.h>

namespace rlock
{ /* is free for C++ */
struct lock {
    rlock_handle *handle;
};
} // namespace rlock

int use_header(rlock_client *client, rlock_handle *lock);

int use_header(rlock_client *client, rlock_handle *lock)
{
    rlock_client_opts client_opts;
    rlock_opts opts;
    rlock_take take;
    rlock_grant grant = RLOCK_GRANT_INIT;
    rlock_info info = RLOCK_INFO_INIT;
    rlock_stats stats = RLOCK_STATS_INIT;

    rlock_init(&client_opts, sizeof(client_opts));
    rlock_init(&opts, sizeof(opts));
    rlock_init(&take, sizeof(take));
    client_opts.url = "redis://localhost";
    take.lease_ms = 10000;
    if (rlock_client_open(&client_opts, &client) != RLOCK_OK) {
        return RLOCK_ECONN;
    }
    RLOCK_GUARD guard = rlock_guard_lock_for(lock, RLOCK_FOREVER, &take);
    if (guard.code != 0) {
        return guard.code;
    }
    return rlock_client_stats(client, &stats) + rlock_inspect(lock, &info) +
           rlock_lock_for(lock, 500, &take, &grant);
}
