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

#define INIT(kind)                                                                                 \
    void rlock_##kind##_init(struct rlock_##kind *ret_##kind, size_t size)                         \
    {                                                                                              \
        init(ret_##kind, size);                                                                    \
    }

INIT(client_opts)
INIT(opts)
INIT(take)
INIT(grant)
INIT(info)
