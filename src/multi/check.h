/* SPDX-License-Identifier: Apache-2.0 */
/* The invariants of a group between two events; see lock/core/check.h. */
#ifndef RLOCK_MULTI_CHECK_H
#define RLOCK_MULTI_CHECK_H

#include "multi/group.h"

#ifdef NDEBUG
static inline void rlock__group_check(const struct rlock__group *group)
{
    (void)group;
}
#else
/* Aborts if an invariant does not hold. */
void rlock__group_check(const struct rlock__group *group);
#endif

#endif
