/* SPDX-License-Identifier: Apache-2.0 */
/* The flags of the interface's structs: each bit belongs to one of them. */
#ifndef RLOCK_CLIENT_FLAGS_H
#define RLOCK_CLIENT_FLAGS_H

#include <rlock/rlock.h>

enum {
    RLOCK__CLIENT_FLAGS = RLOCK_CLIENT_USER_LOOP | RLOCK_CLIENT_NO_PASS |
                          RLOCK_CLIENT_ACKS_ON_DISK | RLOCK_CLIENT_ANNOUNCE_BOTH |
                          RLOCK_CLIENT_SENTINEL_TLS | RLOCK_CLIENT_SENTINEL_PLAIN,
    RLOCK__LOCK_FLAGS = RLOCK_LOCK_NO_REENTRY | RLOCK_LOCK_PREFER_WRITERS | RLOCK_LOCK_SENT_UNLOCK,
    RLOCK__TAKE_FLAGS = RLOCK_TAKE_NEW_OWNER,
    RLOCK__ADOPT_FLAGS = RLOCK__TAKE_FLAGS | RLOCK_TAKE_FROM_DEAD
};

/* Checks the flags of a struct, which rlock_detail() names if there is one that it does not have:
 * a flag of another struct, or of a newer library. Returns 0 or RLOCK_EINVAL. */
int rlock__flags_check(const char *of, uint64_t flags, uint64_t has);

#endif
