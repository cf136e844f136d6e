/* SPDX-License-Identifier: Apache-2.0 */
/* Holds: their rows, what is granted, their levels. Each function runs inside an event. */
#ifndef RLOCK_LOCK_HOLD_H
#define RLOCK_LOCK_HOLD_H

#include "lock/core.h"

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
/* Sees to it that the row has a view, of this kind. False without memory. */
bool rlock__hold_view(struct rlock__hold *hold, struct rlock__spec *spec);
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
void rlock__hold_granted(struct rlock__hold *hold, struct rlock__call *call, int64_t t0,
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
/* The same for levels that were given up while copies of them may still run. */
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

#endif
