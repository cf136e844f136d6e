/* SPDX-License-Identifier: Apache-2.0 */
/* Multi-locks and RedLocks as their users see them: the driver of their parties. */
#ifndef RLOCK_CLIENT_COMPOSITE_H
#define RLOCK_CLIENT_COMPOSITE_H

#include "client/lock.h"

/* Take and give up; arguments were checked. */
int rlock__composite_take(struct rlock *lock, const struct rlock_take *take,
                          struct rlock__owner owner, struct rlock_grant *ret_grant);
int rlock__composite_leave(struct rlock *lock, struct rlock__owner owner);
/* Until when the owner may rely on it, 0 not at all; its levels. */
int64_t rlock__composite_valid_until(const struct rlock *lock, struct rlock__owner owner,
                                     uint32_t *ret_count);
/* What the i-th member said in the latest call on the handle. */
void rlock__composite_result(const struct rlock *lock, size_t i, struct rlock__result *ret);

#endif
