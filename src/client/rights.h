/* SPDX-License-Identifier: Apache-2.0 */
/* What a user must be permitted on the server: each command, key and channel tried by itself. */
#ifndef RLOCK_CLIENT_RIGHTS_H
#define RLOCK_CLIENT_RIGHTS_H

#include "client/ask.h"

/* What a right is for. */
enum rlock__use {
    RLOCK__FOR_ALL,
    RLOCK__FOR_FENCED,
    RLOCK__FOR_FAIR,
    RLOCK__FOR_RW,
    RLOCK__FOR_EASE
};

/* Receives a right that is missing, as an ACL has it ("+zscore"), and what comes of that; of one
 * that is for some kinds, which they are. */
typedef void rlock__lack_fn(enum rlock__use use, const char *right, const char *meaning,
                            void *payload);

/* Calls fn for each right that is missing on names that begin with the client's prefix. key: one
 * that nobody uses. Leaves nothing on the server. Returns 0, or why the server cannot be asked. */
int rlock__rights_try(struct rlock__asker *asker, struct rlock__bytes prefix,
                      struct rlock__bytes key, rlock__lack_fn *fn, void *payload);

#endif
