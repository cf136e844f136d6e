/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The wait queue of a lock: the calls of this client that wait for it, in the order of arrival.
 * Only its head asks the server, so 500 waiters cost one attempt per wake-up.
 *
 * A process close to the server would keep the lock for ever: it asks again before others have even
 * received the message of a release. So clients take turns:
 *   - The reply to our release says how many others received its message. The queue lets as many of
 *     them go first: it pauses for a moment after that release, and after each of theirs.
 *   - Others may wait without a subscription. For them the queue pauses after every eighth release
 *     in any case, for no longer than one more hold of ours would have taken.
 *   - The message of our own release may come before its reply, which has the number of receivers.
 *     So the first pause begins when the release is sent.
 *   - A Redisson client gets the lock once in each turn. So for a second after one was seen to hold
 *     the lock, no hold is passed on (lock/call/pass.h), and our turns are as short as its own.
 *   - A Redisson spin lock polls: it receives no messages, and its releases send none. The busy
 *     answers show how long it has the lock. The queue owes the same time to its own calls. When
 *     they have had that time, the queue pauses until Redisson has the lock again, up to five
 *     times, for 155 ms together on average. A Redisson spin lock asks about every 130 ms.
 *   - Before a Redisson is seen, only the pause after every eighth release lets it in. So the queue
 *     of a spin lock keeps its count for a second when nobody waits here.
 */
#ifndef RLOCK_LOCK_QUEUE_H
#define RLOCK_LOCK_QUEUE_H

#include "lock/core.h"

/* Joins the queue of the call's lock. Returns false without memory. */
bool rlock__queue_join(struct rlock__call *call, int64_t now);
bool rlock__queue_is_head(const struct rlock__call *call);
/* Returns the head of the queue, if the hold may be passed on to it. NULL: nobody waits here, or
 * another library held the lock within the last second. */
struct rlock__call *rlock__queue_heir(const struct rlock__hold *hold, int64_t now);
/* The server named the holder that the call waits for. Returns whether the holder is another
 * library, and its hold began after the one that the server named before. */
bool rlock__queue_saw(struct rlock__call *call, const struct rlock__answer *answer, int64_t now);
/* Others waited for the lock, or may have waited. */
void rlock__queue_contended(struct rlock__core *core, struct rlock__spec *spec, int64_t now);
/* Whether calls wait for the lock here, or others waited within the last second. */
bool rlock__queue_is_contended(struct rlock__core *core, const struct rlock__spec *spec,
                               int64_t now);
/* Whether the call's lock has a queue with calls in it, or one that pauses. */
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
/* A hold of this client on the lock ended. The head may try, maybe after a pause; so may waiters
 * that are in no queue. answer: to the release; NULL: it had none. */
void rlock__queue_released(struct rlock__core *core, struct rlock__spec *spec,
                           const struct rlock__answer *answer, int64_t now);
/* A message of a release came. Returns whether the call is in a queue and the release was another
 * client's: that client's turn is over then. */
bool rlock__queue_on_message(struct rlock__call *call, int64_t now);
/* The client is closed: frees the queues without calls, and what they remember. */
void rlock__queues_close(struct rlock__core *core);
void rlock__queues_trim(struct rlock__core *core);
void rlock__queues_fini(struct rlock__core *core);

#endif
