/* SPDX-License-Identifier: Apache-2.0 */
/* What the three files of the acquisition say to each other. */
#ifndef RLOCK_LOCK_ACQUIRE_H
#define RLOCK_LOCK_ACQUIRE_H

#include "lock/internal.h"

/* ---- acquire.c ---- */

/* The lease that its attempts ask for. */
int64_t rlock__acquire_lease(const struct rlock__call *call);
/* Asks the server, once. */
void rlock__acquire_attempt(struct rlock__call *call, int64_t now);

/* ---- acquire_wait.c ---- */

/* Whether there is time for another attempt; the first always has it. */
bool rlock__acquire_may_try(const struct rlock__call *call, int64_t now);
/* Sleeps until a time, a message, or the deadline. */
void rlock__acquire_sleep(struct rlock__call *call, enum rlock__step step, int64_t at);
/* An attempt found the lock busy, and every copy of it is accounted for that can be. */
void rlock__acquire_busy(struct rlock__call *call, const struct rlock__answer *answer, int64_t now);

/* ---- acquire_end.c ---- */

/*
 * "Busy" says that this number is not there now: with the links of its earlier copies fenced
 * none of them can put it there any more. Nothing else proves that: an error tells of the last
 * copy only.
 */
void rlock__acquire_account_busy(struct rlock__call *call);
struct rlock__open_copies rlock__acquire_copies(const struct rlock__call *call);
/* Writes the text that goes with a code. */
void rlock__acquire_say(struct rlock__call *call, int code, int64_t now);
/* Completes with a code; its text was written before. */
void rlock__acquire_end(struct rlock__call *call, int code, int64_t now);
/* Not acquired, with nothing in flight: says so, if no earlier copy may have taken it, or may
 * yet. */
void rlock__acquire_refuse(struct rlock__call *call, int code, int64_t now);
/* Undoes what was sent, and waits a short while for that to be settled; the rest of the call is
 * over. */
void rlock__acquire_undo(struct rlock__call *call, int code, int64_t now);
/* The answer to an attempt whose call gave up: "busy" settles it; a grant is undone by the
 * release behind it. */
void rlock__acquire_late_answer(struct rlock__call *call, const struct rlock__reply *reply,
                                int64_t now);

#endif
