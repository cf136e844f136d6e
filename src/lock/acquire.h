/* SPDX-License-Identifier: Apache-2.0 */
/* What the three files of the acquisition say to each other. */
#ifndef RLOCK_LOCK_ACQUIRE_H
#define RLOCK_LOCK_ACQUIRE_H

#include "lock/channel.h"
#include "lock/internal.h"
#include "lock/queue.h"

/* ---- acquire.c ---- */

/* The lease that an attempt asks for at that time: a nested level no longer than max_hold leaves
 * the whole hold. */
int64_t rlock__acquire_lease(const struct rlock__call *call, int64_t at);
/* Asks the server, once. */
void rlock__acquire_attempt(struct rlock__call *call, int64_t now);
/* The call's part of an attempt over this link: its command, and its step. */
void rlock__acquire_asks(struct rlock__call *call, struct rlock__link *link,
                         struct rlock__request *request, struct rlock__cmd *ret_cmd, int64_t now);
/* Takes over which copies of a request went out; it is the call's no more. */
void rlock__acquire_note(struct rlock__call *call, const struct rlock__request *request);
/* The answer to an attempt that was sent at t0. reply: NULL there will be none. */
void rlock__acquire_heard(struct rlock__call *call, const struct rlock__reply *reply, int64_t t0,
                          int64_t now);
/* What came in place of the answer was none: nobody knows what became of the attempt. */
void rlock__acquire_garbled(struct rlock__call *call, int64_t now);

/* ---- acquire_wait.c ---- */

/* Whether there is time for an attempt; who found nobody before it always has it for the first. */
bool rlock__acquire_may_try(const struct rlock__call *call, int64_t now);
/* Asks the server; after a while if its wait queue pauses, or if there is no time to. */
void rlock__acquire_go(struct rlock__call *call, int64_t now);
/* Sleeps until a time, a message, or the deadline. */
void rlock__acquire_sleep(struct rlock__call *call, enum rlock__step step, int64_t at);
/* Notes who holds the lock, for texts. */
void rlock__acquire_hold_up(struct rlock__call *call, const struct rlock__answer *answer);
/* An attempt found the lock busy, and every copy of it is accounted for that can be. */
void rlock__acquire_busy(struct rlock__call *call, const struct rlock__answer *answer, int64_t now);

/* ---- acquire_end.c ---- */

/*
 * "Busy" says that this number is not there now: with the links of its earlier copies fenced
 * none of them can put it there any more. Nothing else proves that: an error tells of the last
 * copy only.
 */
void rlock__acquire_account_busy(struct rlock__call *call);
/* All that are not accounted for, with the latest. */
struct rlock__copies rlock__acquire_copies(const struct rlock__call *call);
/* Leaves wait queue and channel, but not its turn on the hold. */
void rlock__acquire_withdraw(struct rlock__call *call, int64_t granted_until);
/* Writes the text that goes with a code. */
void rlock__acquire_describe(struct rlock__call *call, int code, int64_t now);
/* Completes with a code; its text was written before. */
void rlock__acquire_end(struct rlock__call *call, int code, int64_t now);
/* Not acquired, with nothing in flight: says so, if no earlier copy may have taken it, or may
 * yet. */
void rlock__acquire_refuse(struct rlock__call *call, int code, int64_t now);
/* The same for want of memory. */
void rlock__acquire_starve(struct rlock__call *call, int64_t now);
/* Undoes what was sent, and waits a short while for that to be settled; the rest of the call is
 * over. */
void rlock__acquire_undo(struct rlock__call *call, int code, int64_t now);
/* The answer to an attempt whose call gave up: "busy" settles it; a grant is undone by the
 * release behind it. */
void rlock__acquire_late_answer(struct rlock__call *call, const struct rlock__reply *reply,
                                int64_t now);
/* The same of an answer that did not grant it, and names no reason of its own. */
void rlock__acquire_late_refusal(struct rlock__call *call, int64_t now);

/* ---- team.c ---- */

/* A call of a team has its turn, or leads and looks again: asks for all, once all have their turn.
 */
void rlock__team_ask(struct rlock__call *call, int64_t now);
/* The call is the reason why its team was refused. */
void rlock__team_busy(struct rlock__call *call, const struct rlock__answer *answer, int64_t now);
/* The team does not try any more: its leader ends as busy. */
void rlock__team_tire(struct rlock__call *call, int64_t now);
/* Their leader ran into its deadline, and so did they. */
void rlock__team_give_up(struct rlock__team *team, int code, int64_t now);
/* The call is complete. */
void rlock__team_leave(struct rlock__call *call);
/* rlock__acquire_note() for all of them. */
void rlock__team_note(struct rlock__team *team, const struct rlock__request *request);

#endif
