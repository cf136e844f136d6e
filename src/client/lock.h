/* SPDX-License-Identifier: Apache-2.0 */
/* The handle of a lock. */
#ifndef RLOCK_CLIENT_LOCK_H
#define RLOCK_CLIENT_LOCK_H

#include "client/client.h"

struct rlock {
    struct rlock__spec *spec;
};

struct rlock_client *rlock__lock_client(const struct rlock *lock);
/* The beginning of every call: forgets the thread's last detail, checks the handle. */
int rlock__lock_begin(const struct rlock *lock);

#endif
