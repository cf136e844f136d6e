/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The recent releases. A server that takes another one's place, or that was restarted, may lack the
 * newest releases. The lock would be taken there until its lease ends. So these releases are sent
 * to that server again. No number is used twice, so a release that the server has changes nothing.
 */
#ifndef RLOCK_LOCK_RECENT_H
#define RLOCK_LOCK_RECENT_H

#include "lock/core.h"

#define RLOCK__RECENT_MAX 1000
#define RLOCK__RECENT_US (2 * RLOCK__SECOND) /* counted back from the server's last reply */

/*
 * The server answered that this number is released. replaced: a copy that may have taken the number
 * was accounted for because another server took its server's place. The replaced server may hold
 * the number until the lease ends, and may get the key back. Without memory nothing is remembered.
 */
void rlock__recent_add(const struct rlock__link *link, struct rlock__spec *spec, uint64_t number,
                       bool replaced, int64_t now);
/* Releases again the numbers whose keys another server has now. */
void rlock__recent_repeat(struct rlock__core *core, int64_t now);
void rlock__recent_fini(struct rlock__core *core);

#endif
