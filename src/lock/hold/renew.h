/* SPDX-License-Identifier: Apache-2.0 */
/* The renewal of holds, and when it goes out. */
#ifndef RLOCK_LOCK_RENEW_H
#define RLOCK_LOCK_RENEW_H

#include "lock/core.h"

/* ---- renew.c ---- */

/* A grant's timer fired: its renewal is due, or its validity is over. */
void rlock__renew_due(struct rlock__grant *grant, int64_t now);
/* Sends a batch of those that are due, the most urgent. False without memory. */
bool rlock__renew_some(struct rlock__link *link, int64_t now);

/* ---- spread.c: when renewals go out ---- */

/* A hold is due. Where none was, nothing is late so far. */
void rlock__renew_begin(struct rlock__link *link, int64_t now);
/* A batch of so many went out: the link rests before the next one. 0: it does not. */
void rlock__renew_rest(struct rlock__link *link, size_t n, int64_t now);
/* Sends the renewals that are due, as many as may be in flight. */
void rlock__renew_flush(struct rlock__link *link, int64_t now);
/* Sets the link's timer to its next renewal: when a batch may go out, or when the validity of a
 * hold ends that waits for one. The end of an event does that for the servers that it touched. */
void rlock__renew_plan(struct rlock__link *link);
/* Whether that timer is set so. */
bool rlock__renew_is_planned(const struct rlock__link *link);
/* When the next batch of those that are due may go out, on any link, or the validity of one that
 * waits for that ends; RLOCK__NEVER none. */
int64_t rlock__renew_next(const struct rlock__core *core);
/* Ends those whose validity is over before their renewal was sent, so many at most. Returns how
 * many. */
size_t rlock__renewals_expire(struct rlock__core *core, size_t most, int64_t now);

#endif
