/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The local wait queue of a lock: who waits here for it, in the order of arrival. Only its head
 * asks the server, so that 500 local waiters cost one attempt per wake-up.
 *
 * A process next to the lock would have it for ever: it asks again before others have even heard of
 * a release. So clients take turns. After a release of ours that others heard, those who wait here
 * let as many of them go first, and pause for a moment after that release and after each of
 * theirs. Others may wait without hearing anything: for them the queue pauses after some releases
 * in any case, for no longer than one more hold of ours would have taken. The announcement of our
 * own release may come before its answer, which says who heard it; so the first pause begins when
 * the release is sent.
 */
#ifndef RLOCK_LOCK_QUEUE_H
#define RLOCK_LOCK_QUEUE_H

#include "lock/core.h"

/* Joins the queue of its lock; false without memory. */
bool rlock__queue_join(struct rlock__call *call, int64_t now);
bool rlock__queue_is_head(const struct rlock__call *call);
/* Whether others wait for its lock, or whoever joins them has to pause. */
bool rlock__queue_is_kept(const struct rlock__call *call);
/* Until when those who wait with the call let others go first; 0 they do not. */
int64_t rlock__queue_paused_until(const struct rlock__call *call);
/*
 * Leaves the queue. A new head goes on: at once, or, where the one who left was granted the lock,
 * when that lease ends or the channel speaks.
 */
void rlock__queue_leave(struct rlock__call *call, int64_t granted_until);
/* The release of a hold on the lock is sent: until it is answered those who wait pause. */
void rlock__queue_releasing(struct rlock__core *core, const struct rlock__spec *spec, int64_t now);
/* A hold of this process on the lock ended: the head may try, maybe after a pause, and who waits
 * without a queue. receivers: who heard of it, 0 nobody or not known. */
void rlock__queue_released(struct rlock__core *core, struct rlock__spec *spec, int64_t receivers,
                           int64_t now);
/* The channel spoke, of our own release or of one of others, whose turn is over then. */
void rlock__queue_heard(struct rlock__call *call, int64_t now);
void rlock__queues_trim(struct rlock__core *core);
void rlock__queues_fini(struct rlock__core *core);

#endif
