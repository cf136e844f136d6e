/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The invariants of a core between two events. Every event may rely on them, and must leave them
 * true. Builds with assertions check them after each event.
 */
#ifndef RLOCK_LOCK_CHECK_H
#define RLOCK_LOCK_CHECK_H

#include "lock/core.h"

#ifdef NDEBUG
static inline void rlock__core_check(struct rlock__core *core)
{
    (void)core;
}
#else
/* Aborts if an invariant does not hold. The check walks all calls, holds and recoveries. If there
 * are more than a few dozen, it skips events in proportion to their number. */
void rlock__core_check(struct rlock__core *core);
#endif

#endif
