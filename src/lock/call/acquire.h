/* SPDX-License-Identifier: Apache-2.0 */
/* The functions that the files of the acquisition share. */
#ifndef RLOCK_LOCK_ACQUIRE_H
#define RLOCK_LOCK_ACQUIRE_H

#include "lock/core.h"
#include "lock/hold/queue.h"
#include "lock/server/channel.h"

/* ---- acquire_state.c ---- */

/*
 * When the call ends, if nothing else happens. Its deadline ends the wait for the holder. If the
 * server has named no holder, the call waits for the server at least as long as a call with wait 0
 * does. A request that was sent has time for its answer (wire/patience.h).
 */
int64_t rlock__acquire_until(const struct rlock__call *call);
/* When the call ends at the latest: timeout_us after its deadline; with wait 0 at its deadline. */
int64_t rlock__acquire_last(const struct rlock__call *call);
/* Whether another attempt may begin. The first one always may. */
bool rlock__acquire_may_try(const struct rlock__call *call, int64_t now);
/* Whether the call has only waited behind other calls of this client so far. */
bool rlock__acquire_is_behind(const struct rlock__call *call);
/* Sleeps until a time, a message, or the end of its wait. */
void rlock__acquire_sleep(struct rlock__call *call, enum rlock__step step, int64_t at);
/* Remembers the holder that the server named, for texts. */
void rlock__acquire_note_holder(struct rlock__call *call, const struct rlock__answer *answer,
                                int64_t now);
/* Notes which copies of the request went out. The call lets go of the request. */
void rlock__acquire_note(struct rlock__call *call, const struct rlock__request *request);
/* The code of a call that has no time left after this error, which may pass. */
int rlock__acquire_passing_code(const struct rlock__call *call, int code);
/* The call is complete, and leaves its batch. */
void rlock__batch_leave(struct rlock__call *call);
/* rlock__acquire_note() for all calls of the batch. */
void rlock__batch_note(struct rlock__batch *batch, const struct rlock__request *request);

/* ---- acquire_grant.c ---- */

/* Whether the server started too recently to count for a new hold. */
bool rlock__acquire_is_too_young(const struct rlock__call *call, int64_t now);
/* The grant counts, unless its hold would be lost, over or too young. */
void rlock__acquire_granted(struct rlock__call *call, uint64_t token, int64_t t0, int64_t now);
/* A message says that a release granted the lock to the call. Returns whether the grant counts. */
bool rlock__acquire_pushed(struct rlock__call *call, int64_t now);
/* The attempt's grant does not count: gives it back, and tries again after a pause, with a new
 * number. Without time for that the call ends with the code. */
void rlock__acquire_retry(struct rlock__call *call, int code, int64_t now);

/* ---- acquire.c ---- */

/* Sends one attempt. */
void rlock__acquire_attempt(struct rlock__call *call, int64_t now);
/* The call's part of an attempt over this link: its command, and its step. */
void rlock__acquire_asks(struct rlock__call *call, struct rlock__link *link,
                         struct rlock__request *request, struct rlock__cmd *ret_cmd, int64_t now);
/* If the key has moved, or was away, the call joins the channel at the server that has the key,
 * because that server announces releases. */
void rlock__acquire_follow(struct rlock__call *call);
/* An attempt that was sent at t0 is answered. reply: NULL: there will be none. */
void rlock__acquire_answered(struct rlock__call *call, const struct rlock__reply *reply, int64_t t0,
                             int64_t now);
/* The bytes that came are not a reply, so the outcome of the attempt is unknown. */
void rlock__acquire_garbled(struct rlock__call *call, int64_t now);

/* ---- acquire_ack.c ---- */

/* A server granted the lock behind ASKING. The grant counts if the server that the slot map names
 * still redirects to that server. */
void rlock__acquire_look(struct rlock__call *call, const struct rlock__answer *answer, int64_t t0,
                         int64_t now);

/* The server granted the lock. The grant counts once enough replicas have it. */
void rlock__acquire_taken(struct rlock__call *call, uint64_t token, int64_t t0, int64_t now);

/* ---- acquire_wait.c ---- */

/* Asks the server: now, or after a while if its wait queue pauses. */
void rlock__acquire_go(struct rlock__call *call, int64_t now);
/* An attempt found the lock busy. The copies that this answer accounts for are removed already. */
void rlock__acquire_busy(struct rlock__call *call, const struct rlock__answer *answer, int64_t now);

/* ---- acquire_end.c ---- */

/* Ends a prompt call if its server is known to be down. Returns whether it did. */
bool rlock__acquire_is_cut_off(struct rlock__call *call, int64_t now);
/*
 * Accounts for copies after the answer "busy", which says that the number is not on the server now.
 * If the links of earlier copies are fenced, no earlier copy can put the number there any more.
 * Only this answer proves that: an error says something about the last copy alone.
 */
void rlock__acquire_account_busy(struct rlock__call *call);
/* The call leaves its wait queue and its channel, but keeps its turn on the hold. */
void rlock__acquire_withdraw(struct rlock__call *call, int64_t granted_until);
/* Writes the text that goes with a code. */
void rlock__acquire_describe(struct rlock__call *call, int code, int64_t now);
/* Completes the call with a code. The text of the code was written before. */
void rlock__acquire_end(struct rlock__call *call, int code, int64_t now);
/* The call did not get the lock, and nothing is in flight. Completes the call with the code. But if
 * an earlier copy may have taken the lock, or may still take it, undoes that first. */
void rlock__acquire_refuse(struct rlock__call *call, int code, int64_t now);
/* The same for want of memory. */
void rlock__acquire_starve(struct rlock__call *call, int64_t now);
/* Releases what the call's copies took, or may take, and waits a short while until none is open.
 * The rest of the call is over. */
void rlock__acquire_undo(struct rlock__call *call, int code, int64_t now);
/* Reads the answer to an attempt whose call is giving up. "Busy" may end the call. If the answer is
 * a grant, the release that was sent behind the attempt undoes it. */
void rlock__acquire_late_answer(struct rlock__call *call, const struct rlock__reply *reply,
                                int64_t now);
/* The call has no more time to learn the outcome of its attempt. It ends in doubt, or as canceled
 * if it was canceled. */
void rlock__acquire_end_open(struct rlock__call *call, int64_t now);
/* rlock__acquire_late_answer() for an answer that only says that the call was not granted. */
void rlock__acquire_late_refusal(struct rlock__call *call, int64_t now);

/* ---- batch.c ---- */

/* A call of a batch has its turn, or is the sender and tries again. Sends the attempt for all calls
 * once all have their turn. */
void rlock__batch_ask(struct rlock__call *call, int64_t now);
/* The batch was refused because this call's lock is busy. */
void rlock__batch_busy(struct rlock__call *call, const struct rlock__answer *answer, int64_t now);
/* The batch gives up trying: its sender ends as busy. */
void rlock__batch_tire(struct rlock__call *call, int64_t now);
/* The sender has reached its deadline, and so have the others. */
void rlock__batch_give_up(struct rlock__batch *batch, int code, int64_t now);

/* ---- proof.c: answers that prove the end of other holds ---- */

/* The server granted the lock to the call: ends the holds of others here. Returns false if it is
 * not certain which of them has the lock. */
bool rlock__proof_granted(const struct rlock__call *call, int64_t now);
/* The server refused the call, and named this holder ("": none): ends the holds of others here,
 * unless the server named them. */
void rlock__proof_refused(const struct rlock__call *call, struct rlock__bytes holder, int64_t now);

#endif
