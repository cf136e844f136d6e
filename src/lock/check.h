/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is true of a core between two events: no more than that may be assumed at the beginning of
 * an event, and no less may be left at its end. Builds with assertions check it after each event.
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
/* Aborts if something is not true. It looks at all that there is, so a core with more than a few
 * dozen calls and holds is looked at after every so many events only. */
void rlock__core_check(struct rlock__core *core);
#endif

#endif
