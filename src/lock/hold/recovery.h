/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recovery: the numbers that no owner here holds, while copies of them may still run, or while the
 * server may still have them. Each is released until that is over.
 */
#ifndef RLOCK_LOCK_RECOVERY_H
#define RLOCK_LOCK_RECOVERY_H

#include "lock/hold/ticket.h"

/* ---- recover.c: how numbers get into recovery ---- */

/*
 * The call gives up its attempt. What it got, or may get, is released.
 *   count   what remains: 0, or the outer levels
 *   waits   the call waits until the recovery ends: RLOCK__SETTLED. Else it may begin a new number
 * Returns the ticket, which the call no longer owns.
 */
struct rlock__ticket *rlock__recover_attempt(struct rlock__call *call, uint32_t count, bool waits,
                                             int64_t now);
/* The hold was unlocked, and a copy of its acquire may run once more. */
void rlock__recover_ended(struct rlock__hold *hold, int64_t now);
/* The hold was lost, and the server may have it. If many were, it waits for its turn. */
void rlock__recover_lost(struct rlock__hold *hold, int64_t now);
/* The number was released, but the server that has the key now may not know that. */
void rlock__recover_released(struct rlock__spec *spec, uint64_t number, struct rlock__in_flight set,
                             int64_t now);
/* If the call is a member's, its group is in doubt until the recovery ends. */
void rlock__recovery_doubt(struct rlock__ticket *ticket, struct rlock__call *call);

/* ---- recovery.c ---- */

/* The ticket, which is in no recovery yet, gets into one. The server has forgotten its number by
 * that time. Its first release is next: one of the two functions below. */
void rlock__recovery_begin(struct rlock__ticket *ticket, struct rlock__spec *spec, int64_t free_by);
/* Sends the release at once, or when the link is up. */
void rlock__recovery_release(struct rlock__ticket *ticket, int64_t now);
/* The release waits in link.unsent. What calls wait for comes first there. */
void rlock__recovery_line_up(struct rlock__ticket *ticket);
/* A nested attempt asks for the level that recoveries of its number are to undo. So it takes over
 * the copies that they account for. */
void rlock__recovery_supersede(struct rlock__call *call);
/* The call does not wait for the end of its recovery any longer. */
void rlock__recovery_forget(struct rlock__call *call);
/* Sends the next releases, as many as may be in flight. */
void rlock__recovery_flush(struct rlock__link *link, int64_t now);
/* The slot map has changed: releases that wait go to the servers that have their keys now. */
void rlock__recovery_reroute(struct rlock__link *link);
void rlock__recovery_fini(struct rlock__core *core);

#endif
