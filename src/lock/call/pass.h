/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pass: an unlock gives its hold to the head of the lock's wait queue, in this process, and
 * tells the server nothing. Number, key and lease stay; the renewals go on; the owner is another
 * one. The server, and other processes, see one hold that lasts a little longer.
 *
 * While a hold lives that may be passed, those who wait for it here ask the server nothing: it
 * would say "busy". A message of others, and each look that is due, has the hold verified instead.
 * An attempt under way might take the lock a second time; so who has one is passed nothing.
 *
 * Others hear nothing of a pass. So a hold is passed a few times and for a short while, and then
 * really released.
 */
#ifndef RLOCK_LOCK_PASS_H
#define RLOCK_LOCK_PASS_H

#include "lock/core.h"

/* The hold of this client for which the call, in its wait queue, waits: it may be passed, or is
 * released before another one here gets the lock. NULL: there is none, and the server is asked. */
struct rlock__grant *rlock__pass_awaited(const struct rlock__call *call, int64_t now);
/* The owner gives its last level up. Returns the call at the head of the queue if its owner has the
 * hold now. Both calls are the caller's to end, and the hold is over for the owner before. */
struct rlock__call *rlock__pass(struct rlock__hold *hold, int64_t now);
/* A hold on this lock here is asked about at once: others may have ended it. */
void rlock__pass_doubt(struct rlock__core *core, const struct rlock__spec *spec, int64_t now);
/* What is asked for now may end a hold on this lock here: that one is not passed any more. */
void rlock__pass_forbid(struct rlock__core *core, const struct rlock__spec *spec);

#endif
