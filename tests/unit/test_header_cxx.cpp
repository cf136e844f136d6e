/* SPDX-License-Identifier: Apache-2.0 */
/* The public header alone, as C++17 sees it. */
#include <rlock/rlock.h>

namespace rlock
{ /* is free for C++ */
struct lock {
    rlock_handle *handle;
};
} // namespace rlock

int use_header(rlock_client *client, rlock_handle *lock)
{
    rlock_client_opts opts{};
    rlock_take take{};
    rlock_grant grant = RLOCK_GRANT_INIT;

    opts.size = sizeof(opts);
    opts.url = "redis://localhost";
    take.size = sizeof(take);
    take.wait_ms = RLOCK_FOREVER;
    if (rlock_client_open(&opts, &client) != RLOCK_OK) {
        return RLOCK_ECONN;
    }
    RLOCK_GUARD guard = rlock_guard_take(lock, &take);
    return guard.code == 0 ? rlock_lock_with(lock, &take, &grant) : guard.code;
}
