/* SPDX-License-Identifier: Apache-2.0 */
/* The functions that the files of the core share. Each runs inside an event, under the client's
 * mutex. */
#ifndef RLOCK_LOCK_INTERNAL_H
#define RLOCK_LOCK_INTERNAL_H

#include "lock/core.h"

/* ---- call.c ---- */

/*
 * Lets the call go on at the end of the event. It does not go on now, since the caller may be in a
 * loop over a list that the call would change.
 */
void rlock__ready(struct rlock__call *call, enum rlock__why why);
/* Takes back these reasons for the call to go on. */
void rlock__unready(struct rlock__call *call, unsigned why);

/* Moves the call to another step. */
void rlock__call_step(struct rlock__call *call, enum rlock__step step);
/* Where the call's texts go; NULL nowhere. */
struct rlock__texts *rlock__texts(struct rlock__call *call);
/* Says why the call fails, if it does; or takes that back. */
void rlock__say(struct rlock__call *call, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void rlock__unsay(struct rlock__call *call);
/* Completes a call with a code, and a text that says why (NULL: none, or the call has it). */
void rlock__call_complete(struct rlock__call *call, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Writes the lock's name for texts. */
const char *rlock__spec_text(const struct rlock__spec *spec, char out[static 96]);
/* A random number below n. */
int64_t rlock__random(struct rlock__core *core, int64_t n);
/* The pause after so many failures in a row. It doubles up to a limit, and has full jitter above
 * the first step. */
int64_t rlock__backoff(struct rlock__core *core, unsigned failures);
/* Writes "uuid:number", the owner's name on the server. */
struct rlock__bytes rlock__owner_text(const struct rlock__core *core, uint64_t number,
                                      char out[static RLOCK__OWNER_SIZE]);

/* ---- finish.c ---- */

/* Ends an event. The cost depends on the servers that the event touched, and not on how many
 * there are. A link that ends here touches servers again. */
void rlock__finish_event(struct rlock__core *core, int64_t now);
/* Does a slice of what holds and orphans need, unless the rest after the last one lasts. */
void rlock__work(struct rlock__core *core, int64_t now);

/* ---- log.c ---- */

/* A line of which many may come at one time. Those beyond the limit are counted, and a line of
 * their level says how many were left out. */
void rlock__log_event(struct rlock__core *core, enum rlock_level level, int64_t now,
                      const char *format, ...) __attribute__((format(printf, 4, 5)));
/* Whether the log may have one more such line now; counts the line either way. routine: the line
 * is about a call that did not have to wait. */
bool rlock__log_may(struct rlock__core *core, enum rlock_level level, bool routine, int64_t now);
/* Logs how many lines were left out since that was last logged. */
void rlock__log_left_out(struct rlock__core *core);

/* ---- table.c: the rows, one for each owner on each lock ---- */

/* The owner's row of the lock; NULL: there is none. */
struct rlock__hold *rlock__hold_find(struct rlock__core *core, const struct rlock__spec *spec,
                                     struct rlock__owner owner);
/* The same for the given side of the lock. */
struct rlock__hold *rlock__hold_find_side(struct rlock__core *core, const struct rlock__spec *spec,
                                          struct rlock__owner owner, char side);
/* A hold that was granted, by its number; NULL: there is none. */
struct rlock__hold *rlock__hold_by_number(struct rlock__core *core, uint64_t number);
/* A hold on this lock that was granted and is exclusive, of any kind: the next one behind `before`,
 * or the first one (NULL). There are several only if all but one are gone. NULL: no more. */
struct rlock__hold *rlock__hold_by_lock(struct rlock__core *core, const struct rlock__spec *spec,
                                        const struct rlock__hold *before);
/* Finds the row, or makes one; NULL without memory. */
struct rlock__hold *rlock__hold_get(struct rlock__core *core, struct rlock__spec *spec,
                                    struct rlock__owner owner);
/* Sees to it that the row has a claim, of this kind. False without memory. */
bool rlock__hold_claim(struct rlock__hold *hold, struct rlock__spec *spec);
/* Allocates all that an attempt of the call needs when it is granted or given up, and what tells of
 * a loss: once it is sent, nothing of that can fail for want of memory. False without any. */
bool rlock__hold_prepare(struct rlock__call *call);
/* From now on the hold is found by this number; or by none. */
void rlock__grant_number(struct rlock__grant *grant, uint64_t number);
void rlock__grant_unnumber(struct rlock__grant *grant);
/* Nothing is granted any more: it is as new. */
void rlock__grant_clear(struct rlock__grant *grant);
/* Frees a row that has no calls. */
void rlock__hold_free(struct rlock__hold *hold);
/* Frees the rows that are kept for the next holds. */
void rlock__holds_trim(struct rlock__core *core);
void rlock__holds_fini(struct rlock__core *core);

/* ---- hold.c ---- */

/* Moves it to another state: from none to held, from held to lost, and from both to none. */
void rlock__hold_state(struct rlock__hold *hold, enum rlock__hold_state state);
/* The server granted the call its count, with a lease that began at t0 at the earliest. */
void rlock__hold_granted(struct rlock__hold *hold, const struct rlock__call *call, int64_t t0,
                         int64_t lease_us, int64_t now);
/* The hold is over, held or lost. Its row stays while it has calls. */
void rlock__hold_over(struct rlock__hold *hold);
/* The same for one that was unlocked, as the answer says (NULL: there is no answer). */
void rlock__hold_ended(struct rlock__hold *hold, const struct rlock__answer *answer, int64_t now);
/* The hold is lost, for good. Does nothing unless it is held. */
void rlock__hold_lose(struct rlock__hold *hold, enum rlock_reason reason, int64_t now);
/* The server answered that it has no such hold; taken: somebody else has the lock. So the hold is
 * lost. Finds out why: it expired, the server's clock was set, or it was taken or deleted. */
void rlock__hold_gone(struct rlock__hold *hold, bool taken, int64_t now);
/* Goes on with the sweep, from core.sweep on: ends the holds that must not outlive the server's
 * restart, or the client. Looks at `most` rows at most. Returns at how many it looked. */
size_t rlock__holds_sweep(struct rlock__core *core, size_t most, int64_t now);

/* ---- levels.c: how often a hold is held, and which of its levels are renewed ---- */

/* Whether it is renewed: for a level that asked for that, or for a group that is not whole yet.
 * Levels that an unlock gives up ask for nothing. */
bool rlock__hold_is_renewed(const struct rlock__hold *hold);
/* A level of it was granted, with a lease that began at t0 at the earliest. */
void rlock__hold_add_level(struct rlock__hold *hold, const struct rlock__call *call, int64_t t0,
                           int64_t lease_us);
/* The levels that a call gives up. */
struct rlock__levels rlock__levels_of(const struct rlock__call *call);
void rlock__levels_add(struct rlock__levels *levels, const struct rlock__levels *more);
/* The levels of the release under way are gone, and others remain. */
void rlock__hold_drop_levels(struct rlock__hold *hold);
/* It was lost: levels that were given up before wait for no unlock. */
void rlock__hold_drop_owed(struct rlock__hold *hold);
/* Sets how many levels it has, also for its owner's thread. */
void rlock__hold_set_count(struct rlock__hold *hold, uint32_t count);
/* How many levels its owner has not given up. */
uint32_t rlock__hold_left(const struct rlock__hold *hold);
/* Shows its owner's thread how many these are. Without any, the hold is not valid. */
void rlock__hold_show(struct rlock__hold *hold);
/* Plans what comes next for it: an unlock has joined its line, or left it. */
void rlock__hold_plan(struct rlock__hold *hold);

/* ---- grant.c ---- */

/* The link that its next command goes over. It may be another one than before: a key may move. */
struct rlock__link *rlock__grant_route(struct rlock__grant *grant);
/* Has the server asked whether it is there, now. */
void rlock__grant_verify(struct rlock__grant *grant, int64_t now);
/* Its server said that it is there. */
void rlock__grant_seen(struct rlock__grant *grant);
/* Whether its server may be another one than that which last said so. */
bool rlock__grant_moved(const struct rlock__grant *grant);
/* Its renewal waits to be sent from now on, or does not. It is to be planned next. */
void rlock__grant_wait(struct rlock__grant *grant, bool waits);
/* Nothing comes next for it. */
void rlock__grant_unset(struct rlock__grant *grant);
/* Sets the timer to what comes next: its renewal, or the end of its validity. */
void rlock__grant_plan(struct rlock__grant *grant);
/* Sets the validity. The server's lease ends lease_us after t0 at the earliest, and lease_us after
 * now at the latest. The validity never gets shorter here. */
void rlock__grant_set_valid(struct rlock__grant *grant, int64_t t0, int64_t lease_us, int64_t now);
/* The same for a command that does more than that: where replicas acknowledge they do not tell of
 * it, and the validity stays. */
void rlock__grant_extended(struct rlock__grant *grant, int64_t t0, int64_t lease_us, int64_t now);
/* What was sent may make the server's lease last until then. */
void rlock__grant_may_last(struct rlock__grant *grant, int64_t free_by);
/* The same for a renewal that is under way, if one is: it may run yet, or be sent once more. */
void rlock__grant_mind_renewal(struct rlock__grant *grant, int64_t now);
/* The same for levels that were given up, and whose copies may run yet. NULL is ok. */
void rlock__grant_mind_levels(struct rlock__grant *grant, int64_t now);
/* A release goes on without its call (NULL: it has none). If the call is a member's, its group is
 * in doubt until the release ends. */
void rlock__grant_doubt(struct rlock__grant *grant, struct rlock__call *call);
/* Cuts a lease that is asked for at that time so that the hold does not last longer than max_hold,
 * which counts from its first level. The lease never ends before the validity does. */
int64_t rlock__grant_cut(const struct rlock__grant *grant, int64_t lease_us, int64_t at);
/* The lease that an attempt asks for at that time. A nested level asks for no more than max_hold
 * leaves the whole hold. */
int64_t rlock__acquire_lease(const struct rlock__call *call, int64_t at);
/* One that was granted or renewed at t0 is due after a third of its lease. */
void rlock__grant_due(struct rlock__grant *grant, int64_t t0, int64_t lease_us);

/* ---- reroute.c ---- */

/* The map has changed. Requests that wait for a link are refused if another server has their key
 * now, and calls that wait for a lock there look again. */
void rlock__reroute(struct rlock__core *core, int64_t now);

/* ---- need.c ---- */

/* From now on servers of a cluster that nothing needs are let go. */
void rlock__needs_begin(struct rlock__core *core, int64_t now);

/* ---- acquire.c, acquire_turn.c, acquire_wait.c, acquire_end.c: a call that takes a lock ---- */

void rlock__acquire_begin(struct rlock__call *call, int64_t now);
void rlock__acquire_turn(struct rlock__call *call, int64_t now);
/* The channel is live, or a message came on it: the call tries again. */
void rlock__acquire_wake(struct rlock__call *call, int64_t now);
/* The call is the head of its wait queue now. */
void rlock__acquire_head(struct rlock__call *call, int64_t now);
void rlock__acquire_timer(struct rlock__call *call, int64_t now);
void rlock__acquire_give_up(struct rlock__call *call, int code, int64_t now);
/* Cancels it, if it is not complete. One that gives something back already has no more time for
 * that. */
void rlock__acquire_cancel(struct rlock__call *call, int64_t now);
/* The call's channel is not heard any more: it tries again sooner. */
void rlock__acquire_deaf(struct rlock__call *call, int64_t now);
/* The orphan that the call waits for is settled: nothing of the call is left on the server. */
void rlock__acquire_settled(struct rlock__call *call, int64_t now);

/* ---- proof.c: answers to it that end other holds ---- */

/* The server granted the lock to the call: ends the holds of others here. Returns false if it is
 * not certain which of them has the lock. */
bool rlock__proof_granted(const struct rlock__call *call, int64_t now);
/* The server refused the call, and named this holder ("": none): ends the holds of others here,
 * unless the server named them. */
void rlock__proof_refused(const struct rlock__call *call, struct rlock__bytes holder, int64_t now);

/* ---- line.c ---- */

/* Gives the call its turn on the hold: now (true), or after the calls before it. */
bool rlock__hold_enter(struct rlock__hold *hold, struct rlock__call *call);
/* Takes the call out of the line: it is its turn. */
void rlock__hold_turn(struct rlock__call *call);
/* Puts a call of the line in front of the others. */
void rlock__hold_first(struct rlock__call *call);
/* Takes a call out of the line: it gives up. */
void rlock__hold_unline(struct rlock__call *call, int64_t now);
/* Ends the turn. The next call in the line goes on. A row without hold and calls is freed. */
void rlock__hold_leave(struct rlock__hold *hold, int64_t now);

/* ---- release_turn.c: a call that gives up a level ---- */

void rlock__release_begin(struct rlock__call *call, int64_t now);
void rlock__release_turn(struct rlock__call *call, int64_t now);
void rlock__release_timer(struct rlock__call *call, int64_t now);
void rlock__release_give_up(struct rlock__call *call, int code, int64_t now);

/* ---- release.c ---- */

/* Releases the levels whose unlocks got no turn: it is free now. */
void rlock__release_owed(struct rlock__hold *hold, int64_t now);
/* The timer fired for a grant whose last release is under way. If the lease has not ended, the
 * server refused the release after its caller had gone: sends it again. Otherwise forgets the
 * hold. */
void rlock__release_due(struct rlock__hold *hold, int64_t now);

/* ---- command.c, listen.c: other calls ---- */

void rlock__command_begin(struct rlock__call *call, int64_t now);
void rlock__command_timer(struct rlock__call *call, int64_t now);
void rlock__command_give_up(struct rlock__call *call, int code, int64_t now);

void rlock__listen_begin(struct rlock__call *call, int64_t now);
void rlock__listen_give_up(struct rlock__call *call, int code, int64_t now);

/* ---- orphan.c: numbers that nobody here holds, with copies that may still run ---- */

/*
 * Releases the number until every copy of it is accounted for.
 *   count    what remains: 0, or the outer levels
 *   free_by  when the server has forgotten it by itself
 *   call     the call that waits until it is settled; NULL: none
 * Returns NULL without memory.
 */
struct rlock__orphan *rlock__orphan_new(struct rlock__hold *hold, uint64_t number, uint32_t count,
                                        struct rlock__copies copies, int64_t free_by,
                                        struct rlock__call *call, int64_t now);
/* The same for a hold that was lost. If many were, it waits for its turn. */
void rlock__orphan_of_lost(struct rlock__hold *hold, struct rlock__copies copies, int64_t now);
/* The same for a number that was released: the server that has the key now may not know that. */
void rlock__orphan_of_released(struct rlock__spec *spec, uint64_t number,
                               struct rlock__copies copies, int64_t now);
/* It is over while orphans of its levels remain. */
void rlock__orphans_outlive(struct rlock__grant *grant);
/* A nested attempt asks for the level that orphans of its number are to undo. So it takes over the
 * copies that they account for. */
void rlock__orphan_supersede(struct rlock__call *call);
/* The call waits for its orphan no longer. */
void rlock__orphan_forget(struct rlock__call *call);
/* Sends the releases of those whose turn it is, as many as may be in flight. */
void rlock__orphans_flush(struct rlock__link *link, int64_t now);
/* The map has changed: those whose turn has not come are released where their keys are now. */
void rlock__orphans_reroute(struct rlock__link *link);
void rlock__orphans_fini(struct rlock__core *core);

/* ---- spare.c: orphans for later ---- */

/* Gives the call an orphan for later, when there may be no memory. False if there is none now. */
bool rlock__orphan_spare(struct rlock__call *call);
/* Takes it back when it was not needed. */
void rlock__orphan_unspare(struct rlock__call *call);
/* Frees those that are kept for the next calls. */
void rlock__orphans_trim(struct rlock__core *core);

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
