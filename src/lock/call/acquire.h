/* SPDX-License-Identifier: Apache-2.0 */
/* The functions that the files of the acquisition share. */
#ifndef RLOCK_LOCK_ACQUIRE_H
#define RLOCK_LOCK_ACQUIRE_H

#include "lock/core.h"
#include "lock/hold/queue.h"
#include "lock/server/channel.h"

/* ---- acquire.c ---- */

/* Asks the server, once. */
void rlock__acquire_attempt(struct rlock__call *call, int64_t now);
/* The call's part of an attempt over this link: its command, and its step. */
void rlock__acquire_asks(struct rlock__call *call, struct rlock__link *link,
                         struct rlock__request *request, struct rlock__cmd *ret_cmd, int64_t now);
/* Where its key has moved, the call hears the channel at the server that has it now: releases are
 * announced there. */
void rlock__acquire_follow(struct rlock__call *call);
/* Notes which copies of the request went out. The call lets go of the request. */
void rlock__acquire_note(struct rlock__call *call, const struct rlock__request *request);
/* An attempt that was sent at t0 is answered. reply: NULL: there will be none. */
void rlock__acquire_heard(struct rlock__call *call, const struct rlock__reply *reply, int64_t t0,
                          int64_t now);
/* What came in place of the answer makes no sense. So the outcome of the attempt is not known. */
void rlock__acquire_garbled(struct rlock__call *call, int64_t now);

/* It is granted. */
void rlock__acquire_granted(struct rlock__call *call, uint64_t token, int64_t t0, int64_t now);
/* What the attempt took does not count, and is given back. Another one is made after a pause, with
 * a number of its own; without time for that the call ends with the code. */
void rlock__acquire_begin_anew(struct rlock__call *call, int code, int64_t now);

/* ---- acquire_ack.c ---- */

/* A server granted it behind ASKING: that counts if the server that the map names still sends us
 * there. */
void rlock__acquire_look(struct rlock__call *call, const struct rlock__answer *answer, int64_t t0,
                         int64_t now);

/* The server has granted it: so is the call, once enough replicas have that. */
void rlock__acquire_taken(struct rlock__call *call, uint64_t token, int64_t t0, int64_t now);

/* ---- acquire_turn.c ---- */

/* Ends a prompt call if its server is known to be down. Returns whether it did. */
bool rlock__acquire_is_cut_off(struct rlock__call *call, int64_t now);

/* ---- acquire_wait.c ---- */

/*
 * Until when the call goes on as it stands. Its deadline ends the wait for the holder. A call that
 * was not told of a holder waits for the server at least as long as a call with wait 0 does. A
 * request that was sent has time for its answer (wire/patience.h).
 */
int64_t rlock__acquire_until(const struct rlock__call *call);
/* When it ends at the latest: timeout_us after its deadline; with wait 0 at its deadline. */
int64_t rlock__acquire_last(const struct rlock__call *call);
/* Whether another attempt may begin. The first one always may. */
bool rlock__acquire_may_try(const struct rlock__call *call, int64_t now);
/* Asks the server: now, or after a while if its wait queue pauses. */
void rlock__acquire_go(struct rlock__call *call, int64_t now);
/* Sleeps until a time, a message, or the end of its wait. */
void rlock__acquire_sleep(struct rlock__call *call, enum rlock__step step, int64_t at);
/* Notes who holds the lock, for texts. */
void rlock__acquire_hold_up(struct rlock__call *call, const struct rlock__answer *answer);
/* An attempt found the lock busy. All copies that can be accounted for are. */
void rlock__acquire_busy(struct rlock__call *call, const struct rlock__answer *answer, int64_t now);

/* ---- acquire_end.c ---- */

/*
 * Accounts for copies after the answer "busy". It says that this number is not on the server now.
 * If the links of its earlier copies are fenced, none of these can put it there any more. Only this
 * answer proves that: an error tells of the last copy alone.
 */
void rlock__acquire_account_busy(struct rlock__call *call);
/* The copies that are not accounted for, with the latest. */
struct rlock__copies rlock__acquire_copies(const struct rlock__call *call);
/* Leaves wait queue and channel, but not its turn on the hold. */
void rlock__acquire_withdraw(struct rlock__call *call, int64_t granted_until);
/* Writes the text that goes with a code. */
void rlock__acquire_describe(struct rlock__call *call, int code, int64_t now);
/* Completes with a code; its text was written before. */
void rlock__acquire_end(struct rlock__call *call, int code, int64_t now);
/* Not acquired, and nothing is in flight. Completes with the code, unless an earlier copy may have
 * taken the lock, or may yet: then it undoes that first. */
void rlock__acquire_refuse(struct rlock__call *call, int code, int64_t now);
/* The same for want of memory. */
void rlock__acquire_starve(struct rlock__call *call, int64_t now);
/* Undoes what was sent, and waits a short while until that is settled. The rest of the call is
 * over. */
void rlock__acquire_undo(struct rlock__call *call, int code, int64_t now);
/* The answer to an attempt whose call is giving up. "Busy" settles it. A grant is undone by the
 * release that was sent behind it. */
void rlock__acquire_late_answer(struct rlock__call *call, const struct rlock__reply *reply,
                                int64_t now);
/* There is no more time to learn what became of it. It ends in doubt; as canceled if it was. */
void rlock__acquire_end_open(struct rlock__call *call, int64_t now);
/* The same for an answer that only says that it was not granted. */
void rlock__acquire_late_refusal(struct rlock__call *call, int64_t now);

/* ---- batch.c ---- */

/* A call of a batch has its turn, or is the sender and tries again. Asks for all calls, once all
 * have their turn. */
void rlock__batch_ask(struct rlock__call *call, int64_t now);
/* The batch was refused because this call's lock is busy. */
void rlock__batch_busy(struct rlock__call *call, const struct rlock__answer *answer, int64_t now);
/* The batch gives up trying: its sender ends as busy. */
void rlock__batch_tire(struct rlock__call *call, int64_t now);
/* The sender has reached its deadline, and so have the others. */
void rlock__batch_give_up(struct rlock__batch *batch, int code, int64_t now);
/* The call is complete, and leaves its batch. */
void rlock__batch_leave(struct rlock__call *call);
/* rlock__acquire_note() for all calls of the batch. */
void rlock__batch_note(struct rlock__batch *batch, const struct rlock__request *request);

/* ---- proof.c: answers to it that end other holds ---- */

/* The server granted the lock to the call: ends the holds of others here. Returns false if it is
 * not certain which of them has the lock. */
bool rlock__proof_granted(const struct rlock__call *call, int64_t now);
/* The server refused the call, and named this holder ("": none): ends the holds of others here,
 * unless the server named them. */
void rlock__proof_refused(const struct rlock__call *call, struct rlock__bytes holder, int64_t now);

#endif
