/* SPDX-License-Identifier: Apache-2.0 */
/* The handle of a multi-lock or RedLock. */
#ifndef RLOCK_CLIENT_GROUP_H
#define RLOCK_CLIENT_GROUP_H

#include "client/lock.h"

struct rlock__group_spec;

struct rlock__group_lock {
    struct rlock_handle lock;
    struct rlock__group_spec *spec;
    struct rlock__result *results; /* one for each member; the groups' mutex protects them */
};

/* A handle takes over the reference. NULL without memory, and then the reference is gone too. */
struct rlock_handle *rlock__group_lock_new(struct rlock__group_spec *spec);

#endif
