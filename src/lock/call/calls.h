/* SPDX-License-Identifier: Apache-2.0 */
/* What the core does with a call, by the kind of call; and the line of an owner's calls. */
#ifndef RLOCK_LOCK_CALLS_H
#define RLOCK_LOCK_CALLS_H

#include "lock/core.h"

/* ---- kinds.c: all calls ---- */

void rlock__call_begin(struct rlock__call *call, int64_t now);
/* The call completes now, or after a grace. */
void rlock__call_give_up(struct rlock__call *call, int code, int64_t now);
/* A call that waits ends now, or after a grace. Other calls go on. */
void rlock__call_cancel(struct rlock__call *call, int64_t now);
/* The link is down. Gives up the calls that wait for it if it will not come up, or if they are
 * prompt and no copy of their requests can have run. */
void rlock__calls_fail_waiting(struct rlock__link *link, int64_t now);

/* ---- acquire.c, acquire_turn.c, acquire_wait.c, acquire_end.c: a call that takes a lock ---- */

void rlock__acquire_begin(struct rlock__call *call, int64_t now);
void rlock__acquire_turn(struct rlock__call *call, int64_t now);
/* The channel is live, or a message came on it: the call tries again. */
void rlock__acquire_wake(struct rlock__call *call, int64_t now);
/* The call tries again at once. */
void rlock__acquire_again(struct rlock__call *call, int64_t now);
/* The call is the head of its wait queue now. */
void rlock__acquire_head(struct rlock__call *call, int64_t now);
void rlock__acquire_timer(struct rlock__call *call, int64_t now);
void rlock__acquire_give_up(struct rlock__call *call, int code, int64_t now);
/* Cancels the call, if it is not complete. A call that is giving up already gets less time for
 * that. */
void rlock__acquire_cancel(struct rlock__call *call, int64_t now);
/* The call's channel is not live any more: the call tries again sooner. */
void rlock__acquire_deaf(struct rlock__call *call, int64_t now);
/* A look at the key of a tracked channel was answered: the call sleeps no longer than the lease. */
void rlock__acquire_looked(struct rlock__call *call);
/* The recovery that the call waits for has ended: nothing of the call is left on the server. */
void rlock__acquire_settled(struct rlock__call *call, int64_t now);

/* ---- line.c ---- */

/* Gives the call its turn on the hold: now (true), or after the calls before it. */
bool rlock__hold_enter(struct rlock__hold *hold, struct rlock__call *call);
/* Takes the call out of the line, and gives it the turn. */
void rlock__hold_turn(struct rlock__call *call);
/* Puts a call of the line in front of the others. */
void rlock__hold_first(struct rlock__call *call);
/* A call in the line gives up: takes it out. */
void rlock__hold_unline(struct rlock__call *call, int64_t now);
/* Ends the turn. The next call in the line goes on. A row without hold and calls is freed. */
void rlock__hold_leave(struct rlock__hold *hold, int64_t now);

/* ---- enter.c: the lock's queue on the server ---- */

/* A message says when the call is to ask: it sleeps until then at most. */
void rlock__entry_told(struct rlock__call *call, int64_t now);

/* ---- release_turn.c: a call that gives up a level ---- */

void rlock__release_begin(struct rlock__call *call, int64_t now);
void rlock__release_turn(struct rlock__call *call, int64_t now);
void rlock__release_timer(struct rlock__call *call, int64_t now);
void rlock__release_give_up(struct rlock__call *call, int code, int64_t now);

/* ---- release_send.c ---- */

/* The turn is free: releases the levels of unlocks that got no turn. */
void rlock__release_owed(struct rlock__hold *hold, int64_t now);
/* The timer of a grant fired during its last release. If the lease has not ended, the server
 * refused the release after its caller had gone: sends it again. Otherwise forgets the hold. */
void rlock__release_due(struct rlock__hold *hold, int64_t now);

/* ---- extend.c: a call that extends a hold ---- */

void rlock__extend_begin(struct rlock__call *call, int64_t now);
/* Its outcome is known. */
void rlock__extend_settled(struct rlock__call *call);
void rlock__extend_timer(struct rlock__call *call, int64_t now);
void rlock__extend_give_up(struct rlock__call *call, int code, int64_t now);

/* ---- await.c: a call that waits until a latch is open ---- */

void rlock__await_begin(struct rlock__call *call, int64_t now);
/* Its channel is live or not any more, or a message came on it. */
void rlock__await_wake(struct rlock__call *call, int64_t now);
void rlock__await_timer(struct rlock__call *call, int64_t now);
void rlock__await_give_up(struct rlock__call *call, int code, int64_t now);

/* ---- command.c: a call that runs one command ---- */

void rlock__command_begin(struct rlock__call *call, int64_t now);
void rlock__command_timer(struct rlock__call *call, int64_t now);
void rlock__command_give_up(struct rlock__call *call, int code, int64_t now);

#endif
