/* SPDX-License-Identifier: Apache-2.0 */
#include "client/flags.h"

#include <stddef.h>

#include "base/error.h"

static const char *name_of(uint64_t flag)
{
    static const struct {
        uint64_t flag;
        const char *name;
    } names[] = {
        {RLOCK_CLIENT_USER_LOOP, "RLOCK_CLIENT_USER_LOOP"},
        {RLOCK_CLIENT_NO_PASS, "RLOCK_CLIENT_NO_PASS"},
        {RLOCK_CLIENT_ACKS_ON_DISK, "RLOCK_CLIENT_ACKS_ON_DISK"},
        {RLOCK_CLIENT_ANNOUNCE_BOTH, "RLOCK_CLIENT_ANNOUNCE_BOTH"},
        {RLOCK_CLIENT_SENTINEL_TLS, "RLOCK_CLIENT_SENTINEL_TLS"},
        {RLOCK_CLIENT_SENTINEL_PLAIN, "RLOCK_CLIENT_SENTINEL_PLAIN"},
        {RLOCK_LOCK_NO_REENTRY, "RLOCK_LOCK_NO_REENTRY"},
        {RLOCK_LOCK_PREFER_WRITERS, "RLOCK_LOCK_PREFER_WRITERS"},
        {RLOCK_LOCK_SENT_UNLOCK, "RLOCK_LOCK_SENT_UNLOCK"},
        {RLOCK_TAKE_NEW_OWNER, "RLOCK_TAKE_NEW_OWNER"},
    };

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (names[i].flag == flag) {
            return names[i].name;
        }
    }
    return "a flag that this library does not know";
}

int rlock__flags_check(const char *of, uint64_t flags, uint64_t has)
{
    const uint64_t wrong = flags & ~has;
    const uint64_t first = wrong & (~wrong + 1);

    return wrong == 0 ? 0
                      : rlock__fail(RLOCK_EINVAL, "struct %s has no flag 0x%llx: %s", of,
                                    (unsigned long long)first, name_of(first));
}
