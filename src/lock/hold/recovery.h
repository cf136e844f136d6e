/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recovery: the client releases a number that no owner here holds, again and again, as long as a
 * copy of the number may still run, or the server may still have the number. If the number was to
 * take over a hold, the client gives the hold back to the text that it came from.
 */
#ifndef RLOCK_LOCK_RECOVERY_H
#define RLOCK_LOCK_RECOVERY_H

#include "lock/hold/ticket.h"

/* ---- recover.c: how numbers get into recovery ---- */

/*
 * The call gives up its attempt. What the attempt got, or may get, is released.
 *   count   the hold count that remains: 0, or the outer levels
 *   waits   true: the call waits until the recovery ends (RLOCK__SETTLED). False: the call may
 *           begin a new number
 * Returns the ticket, which the call no longer owns.
 */
struct rlock__ticket *rlock__recover_attempt(struct rlock__call *call, uint32_t count, bool waits,
                                             int64_t now);
/* Whether an attempt that was given up may have taken over the hold that the call adopts, and has
 * not given it back yet. */
bool rlock__recovery_adopts(const struct rlock__call *call);
/* The hold was unlocked, and a copy of one of its attempts may still run. */
void rlock__recover_ended(struct rlock__hold *hold, int64_t now);
/* The hold was lost, and the server may have it. If many holds were lost, the release waits until
 * fewer are in flight. */
void rlock__recover_lost(struct rlock__hold *hold, int64_t now);
/* The number was released, but the server that has the key now may not know that. */
void rlock__recover_released(struct rlock__spec *spec, uint64_t number, struct rlock__in_flight set,
                             int64_t now);
/* Acts on the numbers that messages of this event named. Releases a number that no call here has,
 * if the lock is reserved for it. If a call elsewhere waits for a hold that lingers, the release of
 * that hold is due. */
void rlock__told_of_numbers(struct rlock__server *server, int64_t now);
/* If the call is a group member's, the group is in doubt until the recovery ends. */
void rlock__recovery_doubt(struct rlock__ticket *ticket, struct rlock__call *call);

/* ---- recovery.c ---- */

/* Puts the ticket into recovery. free_by: by then the server has forgotten the number. The caller
 * then begins the first release, by one of the two functions below. */
void rlock__recovery_begin(struct rlock__ticket *ticket, struct rlock__spec *spec, int64_t free_by);
/* Sends the release at once, or when the link is up. */
void rlock__recovery_release(struct rlock__ticket *ticket, int64_t now);
/* The release waits in link.unsent. Releases that calls wait for come first there. */
void rlock__recovery_line_up(struct rlock__ticket *ticket);
/* The call, a nested attempt, asks for the level that recoveries of its number undo. So the
 * recoveries end, and the call takes over their open copies. */
void rlock__recovery_supersede(struct rlock__call *call);
/* The call does not wait for the end of its recovery any longer. */
void rlock__recovery_forget(struct rlock__call *call);
/* Sends the next releases, as many as may be in flight. */
void rlock__recovery_flush(struct rlock__link *link, int64_t now);
/* The slot map has changed: releases that wait go to the servers that have their keys now. */
void rlock__recovery_reroute(struct rlock__link *link);
void rlock__recovery_fini(struct rlock__core *core);

#endif
