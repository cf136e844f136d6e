/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the core say to each other. All of it runs inside an event, under the client's
 * mutex. */
#ifndef RLOCK_LOCK_INTERNAL_H
#define RLOCK_LOCK_INTERNAL_H

#include "lock/core.h"

/* ---- call.c ---- */

/*
 * The call goes on at the end of the event, not now: who says so is in the midst of something, and
 * lists do not change under a loop.
 */
void rlock__ready(struct rlock__call *call, enum rlock__why why);
/* Not for these reasons any more. */
void rlock__unready(struct rlock__call *call, unsigned why);

/* Completes a call with a code, and text (NULL: none, or set already) that says why. */
void rlock__call_complete(struct rlock__call *call, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Writes "lock NAME" of a call or spec for texts. */
const char *rlock__spec_text(const struct rlock__spec *spec, char out[static 96]);
/* A random number below n. */
int64_t rlock__random(struct rlock__core *core, int64_t n);
/* The pause after so many failures in a row: doubling, capped, with full jitter above the first
 * step. */
int64_t rlock__backoff(struct rlock__core *core, unsigned failures);
/* Writes "uuid:number". */
struct rlock__bytes rlock__owner_text(const struct rlock__core *core, uint64_t number,
                                      char out[static RLOCK__OWNER_SIZE]);
struct rlock__request *rlock__request_new(rlock__answer_fn *answer, void *subject);

/* ---- table.c ---- */

struct rlock__hold *rlock__hold_find(struct rlock__core *core, const struct rlock__spec *spec,
                                     struct rlock__owner owner);
struct rlock__hold *rlock__hold_find_side(struct rlock__core *core, const struct rlock__spec *spec,
                                          struct rlock__owner owner, char side);
/* One that was granted, by its number; NULL none. */
struct rlock__hold *rlock__hold_by_number(struct rlock__core *core, uint64_t number);
/* Finds or makes; NULL without memory. */
struct rlock__hold *rlock__hold_get(struct rlock__core *core, struct rlock__spec *spec,
                                    struct rlock__owner owner);
/* Makes a row ready for an attempt of this kind, which can be given up, or lost, without memory;
 * false if there is none now. */
bool rlock__hold_prepare(struct rlock__hold *hold, struct rlock__spec *spec);
/* From now on it is found by this number; no more. */
void rlock__hold_number(struct rlock__hold *hold, uint64_t number);
void rlock__hold_unnumber(struct rlock__hold *hold);
/* Frees a row without calls. */
void rlock__hold_free(struct rlock__hold *hold);
void rlock__holds_fini(struct rlock__core *core);

/* ---- hold.c ---- */

/* Gives the call its turn on the hold, now (true) or after those before it. */
bool rlock__hold_enter(struct rlock__hold *hold, struct rlock__call *call);
/* It is the call's turn. */
void rlock__hold_turn(struct rlock__call *call);
/* Takes a call out of the line. */
void rlock__hold_unline(struct rlock__call *call, int64_t now);
/* The turn is over: the next call in line goes on; a hold without state and calls is freed. */
void rlock__hold_leave(struct rlock__hold *hold, int64_t now);
/* The server granted the call its count and lease at t0. */
void rlock__hold_granted(struct rlock__hold *hold, const struct rlock__call *call, int64_t t0,
                         int64_t lease_us, int64_t now);
/* The hold is over: unlocked, as the answer says; NULL: there is none. Its row stays while calls
 * are on it. */
void rlock__hold_ended(struct rlock__hold *hold, const struct rlock__answer *answer, int64_t now);
/* The hold is lost, for good. Harmless unless it is held. */
void rlock__hold_lose(struct rlock__hold *hold, enum rlock_reason reason, int64_t now);
/* The server answered that it has no such hold; taken: somebody else has the lock. The hold is
 * lost: it has expired, the server's clock was set, or it was taken or deleted. */
void rlock__hold_gone(struct rlock__hold *hold, bool taken, int64_t now);
/* Whether it is renewed: for a level that asked for that, or a group that is not whole yet. */
bool rlock__hold_is_renewed(const struct rlock__hold *hold);
/* Whether the release of its latest level leaves others that are renewed, and so asks for a whole
 * lease. */
bool rlock__hold_stays_renewed(const struct rlock__hold *hold);
void rlock__hold_set_count(struct rlock__hold *hold, uint32_t count);
/* One of several levels is gone. */
void rlock__hold_drop_level(struct rlock__hold *hold);
/* The server's lease ends no earlier than lease_us after t0, and no later than that after now.
 * Validity never moves backwards here. */
void rlock__hold_set_valid(struct rlock__hold *hold, int64_t t0, int64_t lease_us, int64_t now);
/* What a lease that is asked for at that time comes to: max_hold counts from the first level on,
 * whatever is nested. It never ends before the hold does. */
int64_t rlock__hold_cut(const struct rlock__hold *hold, int64_t lease_us, int64_t at);
/* The link that its next command goes over: a key may have moved. */
struct rlock__link *rlock__hold_route(struct rlock__hold *hold);
/* Sets the timer to what comes next: renewal or end of validity. */
void rlock__hold_plan(struct rlock__hold *hold);
/* It was granted or renewed at t0: plans the next renewal. */
void rlock__hold_next_renewal(struct rlock__hold *hold, int64_t t0, int64_t lease_us);
/* Goes on with the sweep, from core.sweep on: ends what must not outlive the server's restart,
 * or the client. Looks at no more rows than so many; returns at how many. */
size_t rlock__holds_sweep(struct rlock__core *core, size_t most, int64_t now);

/* ---- spec.c ---- */

/* Sends the release of a number to a count. NULL without memory: nothing is sent. */
struct rlock__request *rlock__release_send(struct rlock__spec *spec, struct rlock__link *link,
                                           uint64_t number, uint32_t count, int64_t lease_us,
                                           rlock__answer_fn *answer, void *subject, int64_t now);

/* ---- acquire.c, acquire_wait.c, acquire_end.c, release.c, command.c, listen.c ---- */

void rlock__acquire_begin(struct rlock__call *call, int64_t now);
void rlock__acquire_turn(struct rlock__call *call, int64_t now);
/* The channel is live, or spoke: look at the lock again. */
void rlock__acquire_wake(struct rlock__call *call, int64_t now);
/* The call is the head of its wait queue now. */
void rlock__acquire_head(struct rlock__call *call, int64_t now);
void rlock__acquire_timer(struct rlock__call *call, int64_t now);
void rlock__acquire_give_up(struct rlock__call *call, int code, int64_t now);
/* Nobody hears the call's channel any more: it looks again sooner. */
void rlock__acquire_deaf(struct rlock__call *call, int64_t now);
/* The orphan that a call waits for is settled: nothing of the call is left on the server. */
void rlock__acquire_settled(struct rlock__call *call, int64_t now);

void rlock__release_begin(struct rlock__call *call, int64_t now);
void rlock__release_turn(struct rlock__call *call, int64_t now);
void rlock__release_timer(struct rlock__call *call, int64_t now);
void rlock__release_give_up(struct rlock__call *call, int code, int64_t now);
/* The last release was refused, and its caller has gone: tries again. */
void rlock__release_again(struct rlock__hold *hold, int64_t now);
/* The lease of a hold whose last release has no answer has ended: forget it. */
void rlock__release_expired(struct rlock__hold *hold, int64_t now);
void rlock__command_begin(struct rlock__call *call, int64_t now);
void rlock__command_timer(struct rlock__call *call, int64_t now);
void rlock__command_give_up(struct rlock__call *call, int code, int64_t now);

void rlock__listen_begin(struct rlock__call *call, int64_t now);
void rlock__listen_give_up(struct rlock__call *call, int code, int64_t now);

/* ---- orphan.c: numbers that nobody here holds, with copies that may still run ---- */

/*
 * Releases the number (to a count: 0, or what the outer levels hold) until every copy is accounted
 * for. free_by: when the server has forgotten it by itself. call: waits for that; may be NULL.
 */
void rlock__orphan_new(struct rlock__hold *hold, uint64_t number, uint32_t count,
                       struct rlock__copies copies, int64_t free_by, struct rlock__call *call,
                       int64_t now);
/* The same for a hold that was lost: in its turn, where many are. */
void rlock__orphan_of_lost(struct rlock__hold *hold, struct rlock__copies copies, int64_t now);
/* What one is made of, for when there is no memory: NULL if there is none now. */
struct rlock__orphan *rlock__orphan_spare(void);
struct rlock__orphan *rlock__orphan_unspare(struct rlock__orphan *spare);
/* The row goes before orphans of its levels. */
void rlock__orphans_outlive(struct rlock__hold *hold);
/* A nested attempt asks for the very level that orphans of its number would undo: it takes over
 * what they have to account for. */
void rlock__orphan_supersede(struct rlock__call *call);
/* The call does not wait any longer. */
void rlock__orphan_forget(struct rlock__call *call);
/* Releases those whose turn it is, as many as may be in flight. */
void rlock__orphans_flush(struct rlock__link *link, int64_t now);
/* Logs what could not be released. */
void rlock__orphans_note_rest(struct rlock__core *core, int64_t now);
void rlock__orphans_fini(struct rlock__core *core);

/* ---- renew.c ---- */

/* The hold's timer fired: it is due, or over. */
void rlock__renew_timer(struct rlock__timer *timer, int64_t now);
/* Sends renewals that are due, as many as may be in flight. */
void rlock__renew_flush(struct rlock__link *link, int64_t now);
/* Whether more could be sent now. */
bool rlock__renew_is_ready(const struct rlock__link *link);

#endif
