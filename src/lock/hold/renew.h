/* SPDX-License-Identifier: Apache-2.0 */
/* The renewal of holds, and when it goes out. */
#ifndef RLOCK_LOCK_RENEW_H
#define RLOCK_LOCK_RENEW_H

#include "lock/core.h"

/* ---- renew.c ---- */

/* A grant's timer fired: its renewal is due, or its validity is over. */
void rlock__renew_due(struct rlock__grant *grant, int64_t now);
/* Sends a batch of the most urgent holds that are due. Returns false without memory. */
bool rlock__renew_some(struct rlock__link *link, int64_t now);

/* ---- lease.c ---- */

/* The lease that a renewal now asks for: never past max_hold. */
int64_t rlock__renewal_lease(const struct rlock__grant *grant, int64_t now);
/* How many units a renewal extends at most, if they are there. */
uint32_t rlock__renewal_units(const struct rlock__grant *grant);
/* The log warns if a renewal used two thirds of the time between the moment at which it was due and
 * the end of the validity. */
void rlock__renewal_note_late(const struct rlock__grant *grant, int64_t lease_us, int64_t now);
/* Whether a renewal now would extend the validity. If not, sets when it is due instead. */
bool rlock__renewal_is_worth(struct rlock__grant *grant, int64_t now);

/* ---- spread.c: when renewals go out ---- */

/* A hold is due. If no other hold is due, the link has no delay to make up for. */
void rlock__renew_begin(struct rlock__link *link, int64_t now);
/* A batch of n holds went out: the link rests before the next one. n = 0: it does not rest. */
void rlock__renew_rest(struct rlock__link *link, size_t n, int64_t now);
/* Sends the renewals that are due, as many as may be in flight. */
void rlock__renew_flush(struct rlock__link *link, int64_t now);
/* Sets the link's timer to the earlier of two times: when the next batch may go out, and when the
 * validity of a hold ends that waits for its renewal. The end of an event calls this for the
 * servers that the event touched. */
void rlock__renew_plan(struct rlock__link *link);
/* Whether that timer is set to that time. */
bool rlock__renew_is_planned(const struct rlock__link *link);
/* The earliest of these timers, of all links; RLOCK__NEVER: none is set. */
int64_t rlock__renew_next(const struct rlock__core *core);
/* Fires these timers. Ends the holds whose validity is over before their renewal was sent, `most`
 * of them at most. Returns how many. */
size_t rlock__renewals_expire(struct rlock__core *core, size_t most, int64_t now);

#endif
