/* SPDX-License-Identifier: Apache-2.0 */
/* What is true of a group between two events; see lock/check.h. */
#ifndef RLOCK_MULTI_CHECK_H
#define RLOCK_MULTI_CHECK_H

#include "multi/group.h"

#ifdef NDEBUG
static inline void rlock__group_check(const struct rlock__group *group)
{
    (void)group;
}
#else
/* Aborts if something is not true. */
void rlock__group_check(const struct rlock__group *group);
#endif

#endif
