/* SPDX-License-Identifier: Apache-2.0 */
/* Structs that lead with their size, made empty: for languages that have no macros. The size is the
 * caller's, since only the caller knows how long a struct it was compiled with. */
#include <string.h>

#include <rlock/rlock.h>

/* A size that has no room for itself is left to the call that gets the struct: it refuses it. */
static void init(void *ret_sized, size_t size)
{
    memset(ret_sized, 0, size);
    if (size >= sizeof(size)) {
        memcpy(ret_sized, &size, sizeof(size));
    }
}

void rlock_client_opts_init(struct rlock_client_opts *ret_opts, size_t size)
{
    init(ret_opts, size);
}

void rlock_opts_init(struct rlock_opts *ret_opts, size_t size)
{
    init(ret_opts, size);
}

void rlock_take_init(struct rlock_take *ret_take, size_t size)
{
    init(ret_take, size);
}

void rlock_grant_init(struct rlock_grant *ret_grant, size_t size)
{
    init(ret_grant, size);
}

void rlock_info_init(struct rlock_info *ret_info, size_t size)
{
    init(ret_info, size);
}
