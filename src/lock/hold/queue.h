/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The wait queue of a lock: the calls of this client that wait for it, in the order of arrival.
 * Only its head asks the server, so 500 waiters cost one attempt per wake-up.
 *
 * A process next to the lock would have it for ever: it asks again before others have even heard of
 * a release. So clients take turns:
 *   - A release of ours says how many others heard it. The queue lets as many of them go first: it
 *     pauses for a moment after that release, and after each of theirs.
 *   - Others may wait without hearing anything. For them the queue pauses after some releases in
 *     any case, for no longer than one more hold of ours would have taken.
 *   - The announcement of our own release may come before its answer, which says how many heard it.
 *     So the first pause begins when the release is sent.
 *   - A Redisson has the lock once in each turn. So while one was seen to hold it of late no hold
 *     is passed on (lock/call/pass.h), and our turns are as short as its own.
 *   - A Redisson that polls (a spin lock) hears nothing, and nobody hears of it. The busy answers
 *     show how long it has the lock. The queue owes the same time to its own calls. When they have
 *     had it, the queue pauses until that Redisson has the lock again, up to five times, for 155 ms
 *     together on average. A poller of Redisson's looks about every 130 ms.
 *   - Before a Redisson is seen, only the pause after every eighth release lets it in. So the queue
 *     of a spin lock counts on for a second when nobody waits here.
 */
#ifndef RLOCK_LOCK_QUEUE_H
#define RLOCK_LOCK_QUEUE_H

#include "lock/core.h"

/* Joins the queue of its lock; false without memory. */
bool rlock__queue_join(struct rlock__call *call, int64_t now);
bool rlock__queue_is_head(const struct rlock__call *call);
/* The head of the queue for the lock that is held, if the hold may be passed on to it; NULL: nobody
 * waits here, or another library was seen to hold the lock of late. */
struct rlock__call *rlock__queue_heir(const struct rlock__hold *hold, int64_t now);
/* The server named the holder for which the call waits. Returns whether that is another library,
 * and the hold began after the one that it named before. */
bool rlock__queue_saw(struct rlock__call *call, const struct rlock__answer *answer, int64_t now);
/* Whether others wait for its lock, or whoever joins the queue has to pause. */
bool rlock__queue_is_kept(const struct rlock__call *call);
/* Until when the call's queue lets others go first; 0: it does not pause. */
int64_t rlock__queue_paused_until(const struct rlock__call *call);
/*
 * Leaves the queue. A new head goes on at once. But if the one that left was granted the lock, the
 * new head goes on when that lease ends or a message comes.
 */
void rlock__queue_leave(struct rlock__call *call, int64_t granted_until);
/* The release of a hold on the lock is sent. The queue pauses until it is answered. */
void rlock__queue_releasing(struct rlock__core *core, const struct rlock__spec *spec, int64_t now);
/* A hold of this client on the lock ended. The head may try, maybe after a pause; so may those who
 * wait without a queue. receivers: how many heard of it; 0: nobody, or not known. */
void rlock__queue_released(struct rlock__core *core, struct rlock__spec *spec, int64_t receivers,
                           int64_t now);
/* A message of a release came. Returns whether the call is in a queue and the release was another
 * client's: that client's turn is over then. */
bool rlock__queue_on_message(struct rlock__call *call, int64_t now);
/* The client is closed: a queue without calls is not kept for what it knows. */
void rlock__queues_close(struct rlock__core *core);
void rlock__queues_trim(struct rlock__core *core);
void rlock__queues_fini(struct rlock__core *core);

#endif
