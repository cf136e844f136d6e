/* SPDX-License-Identifier: Apache-2.0 */
/* Candidates for a lock. */
#ifndef RLOCK_CLIENT_LEADER_H
#define RLOCK_CLIENT_LEADER_H

#include <rlock/leader.h>

#include "client/lock.h"

/* Checks the arguments of rlock_leader_new(), and completes the options by their defaults. */
int rlock__leader_check(const struct rlock_handle *lock, const struct rlock_leader_opts *opts,
                        struct rlock_leader *const *ret_leader, struct rlock_leader_opts *ret_opts);

#endif
