/* SPDX-License-Identifier: Apache-2.0 */
/* Initializes the structs that begin with their size, for languages that cannot use the macros. The
 * caller passes the size, because it may have been compiled with an older or newer header. */
#include <string.h>

#include <rlock/rlock.h>

void rlock_init(void *ret_struct, size_t size)
{
    memset(ret_struct, 0, size);
    if (size >= sizeof(size)) { /* otherwise the call that gets the struct refuses it */
        memcpy(ret_struct, &size, sizeof(size));
    }
}
