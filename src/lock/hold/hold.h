/* SPDX-License-Identifier: Apache-2.0 */
/* Holds: their rows, what is granted, their levels. Each function runs inside an event. */
#ifndef RLOCK_LOCK_HOLD_H
#define RLOCK_LOCK_HOLD_H

#include <stdlib.h>

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
/* From now on rlock__hold_by_number() finds the hold by this number, or does not find it any
 * more. */
void rlock__grant_number(struct rlock__grant *grant, uint64_t number);
void rlock__grant_unnumber(struct rlock__grant *grant);
/* A new row is found by its owner, side and key from now on. */
void rlock__hold_index(struct rlock__hold *hold);
/* The row ends with its last release, for which no call waits. Until then no call finds it: the
 * owner's next call gets another row, and its request goes behind the release. */
void rlock__hold_hide(struct rlock__hold *hold);
/* Frees the tables of a core without rows. */
void rlock__hold_tables_fini(struct rlock__core *core);

/* ---- rows.c: the memory of the rows ---- */

/* Finds the row, or makes one; NULL without memory. */
struct rlock__hold *rlock__hold_get(struct rlock__core *core, struct rlock__spec *spec,
                                    struct rlock__owner owner);
/* Ensures that the row has a view, of the spec's kind. Returns false without memory. */
bool rlock__hold_view(struct rlock__hold *hold, struct rlock__spec *spec);
/* Allocates all that the call may need after its attempt is sent: for the grant, for giving up, and
 * for the report of a loss. Then none of these can fail for want of memory. Returns false without
 * memory. */
bool rlock__hold_prepare(struct rlock__call *call);
/* From now on the grant lingers (lock/call/pass.h), or does not. */
static inline void rlock__grant_linger(struct rlock__grant *grant, bool lingers)
{
    if (grant->lingers != lingers) {
        unsigned *n = &grant->hold->spec->core->rows.n_lingering;

        grant->lingers = lingers;
        *n = lingers ? *n + 1 : *n - 1;
    }
}
/* Clears the grant: nothing is granted any more. */
void rlock__grant_clear(struct rlock__grant *grant);
/* Frees a row that has no calls. */
void rlock__hold_free(struct rlock__hold *hold);
/* Frees the rows that are kept for the next holds. */
void rlock__holds_trim(struct rlock__core *core);
void rlock__holds_fini(struct rlock__core *core);

/* ---- hold.c ---- */

/* Moves the hold to another state: from none to held, from held to lost, and from both to none. */
void rlock__hold_state(struct rlock__hold *hold, enum rlock__hold_state state);
/* The server granted the call its count, with a lease that began at t0 at the earliest. */
void rlock__hold_granted(struct rlock__hold *hold, struct rlock__call *call, int64_t t0,
                         int64_t lease_us, int64_t now);
/* The hold is over, held or lost. Its row stays while it has calls. */
void rlock__hold_over(struct rlock__hold *hold);
/* The hold was unlocked. answer: to its release; NULL: there is none. */
void rlock__hold_ended(struct rlock__hold *hold, const struct rlock__answer *answer, int64_t now);
/* The hold is lost, for good. Does nothing unless it is held. */
void rlock__hold_lose(struct rlock__hold *hold, enum rlock_reason reason, int64_t now);
/* The server answered that it does not have the hold: the hold is lost. taken: another owner has
 * the lock. Finds the reason: the hold expired, the server's clock was set, a promoted replica
 * never had it, or somebody took or deleted the lock. */
void rlock__hold_gone(struct rlock__hold *hold, bool taken, int64_t now);
/* Continues the sweep at core.rows.sweep: ends the holds that must not outlive the server's
 * restart, or the client, and verifies holds whose server may have changed. Visits `most` rows at
 * most. Returns how many it visited. */
size_t rlock__holds_sweep(struct rlock__core *core, size_t most, int64_t now);

/* ---- levels.c: how many levels a hold has, and which of them are renewed ---- */

/* Whether the hold is renewed, because a level asked for that or because a group is not complete
 * yet. Levels that an unlock gives up do not count. */
bool rlock__hold_is_renewed(const struct rlock__hold *hold);
/* A level of the hold was granted, with a lease that began at t0 at the earliest. */
void rlock__hold_add_level(struct rlock__hold *hold, const struct rlock__call *call, int64_t t0,
                           int64_t lease_us);
/* The levels that a call gives up. */
struct rlock__levels rlock__levels_of(const struct rlock__call *call);
void rlock__levels_add(struct rlock__levels *levels, const struct rlock__levels *more);
/* The release has ended its levels, and other levels remain. */
void rlock__hold_drop_levels(struct rlock__hold *hold);
/* The hold was lost: drops the levels that were given up before, since no unlock will come for
 * them. */
void rlock__hold_drop_owed(struct rlock__hold *hold);
/* How many of the levels that are owed have unlocks that returned before the answer. */
static inline unsigned rlock__hold_sent_owed(const struct rlock__hold *hold)
{
    return hold->owed.n < hold->sent ? hold->owed.n : hold->sent;
}
/* The outcome of n unlocks that returned before the answer. Counts and logs a failure. */
void rlock__hold_end_sent(struct rlock__hold *hold, unsigned n, int code);
/* NULL: it is of another kind, or nothing was asked for yet. */
static inline struct rlock__units *rlock__units_of(const struct rlock__hold *hold)
{
    return rlock__has_units(hold->spec) ? hold->units : NULL;
}
/* The units that the hold's first levels have together. Without units each level counts 1. */
uint32_t rlock__hold_units(const struct rlock__hold *hold, uint32_t levels);
/* The units of the hold with the level that the call asks for. */
uint32_t rlock__call_units(const struct rlock__call *call);
/* Notes the units that the call asks for. */
void rlock__units_ask(struct rlock__call *call, struct rlock__args *args);
/* The hold gets units, or gives some back. A renewal in flight, which may run behind that, does not
 * know. */
static inline void rlock__grant_changes(struct rlock__grant *grant)
{
    struct rlock__units *units = rlock__units_of(grant->hold);

    if (units != NULL && grant->batch_entry != NULL) {
        units->renewal_is_old = true;
    }
}
static inline bool rlock__renewal_is_old(const struct rlock__grant *grant)
{
    const struct rlock__units *units = rlock__units_of(grant->hold);

    return units != NULL && units->renewal_is_old;
}
/* The most units that the hold's number asked for; 0 without units. */
static inline uint32_t rlock__units_most(const struct rlock__hold *hold)
{
    const struct rlock__units *units = rlock__units_of(hold);

    return units != NULL ? units->most : 0;
}
/* Makes room to note the units of the level that the call asks for. Returns false without memory.
 */
bool rlock__units_reserve(const struct rlock__call *call);
/* The hold is over: forgets the units of its levels. */
static inline void rlock__units_drop(struct rlock__hold *hold)
{
    if (rlock__has_units(hold->spec)) {
        free(hold->units);
        hold->units = NULL;
    }
}
/* Sets how many levels the hold has, and updates its view. */
void rlock__hold_set_count(struct rlock__hold *hold, uint32_t count);
/* How many levels of the hold its owner has not given up. */
uint32_t rlock__hold_left(const struct rlock__hold *hold);
/* Writes that number into the view. If it is 0, the view is not valid any more. */
void rlock__hold_show(struct rlock__hold *hold);
/* An unlock has joined the hold's line, or left it: plans the hold's timer again. */
void rlock__hold_plan(struct rlock__hold *hold);

/* ---- grant.c ---- */

/* Updates and returns the link for the grant's next command. The link changes if the key moves. */
struct rlock__link *rlock__grant_route(struct rlock__grant *grant);
/* The grant's next renewal is due now, and does not wait for others. The caller then plans the
 * grant. */
void rlock__grant_hurry(struct rlock__grant *grant, int64_t now);
/* Asks the server, by a renewal that is due now, whether it has the hold. */
void rlock__grant_verify(struct rlock__grant *grant, int64_t now);
/* The server reported that it has the hold. */
void rlock__grant_seen(struct rlock__grant *grant);
/* Whether the server may be another one than the server that last reported that. */
bool rlock__grant_moved(const struct rlock__grant *grant);
/* From now on the grant's renewal waits to be sent, or does not. The caller then plans the
 * grant. */
void rlock__grant_wait(struct rlock__grant *grant, bool waits);
/* Unsets the grant's timer. */
void rlock__grant_unset(struct rlock__grant *grant);
/* Sets the grant's timer to what comes next: a renewal, a release, or the end of the validity. */
void rlock__grant_plan(struct rlock__grant *grant);
/* Sets the validity. The server's lease ends lease_us after t0 at the earliest, and lease_us after
 * now at the latest. The validity never gets shorter here. */
void rlock__grant_set_valid(struct rlock__grant *grant, int64_t t0, int64_t lease_us, int64_t now);
/* The same for a command that extends the lease as a side effect. If replicas acknowledge, the
 * client does not wait for them here, and the validity does not change. */
void rlock__grant_extended(struct rlock__grant *grant, int64_t t0, int64_t lease_us, int64_t now);
/* A command that was sent may make the server's lease last until free_by. */
void rlock__grant_may_last(struct rlock__grant *grant, int64_t free_by);
/* The same for a renewal in flight, if there is one: it may still run, or be sent again. */
void rlock__grant_mind_renewal(struct rlock__grant *grant, int64_t now);
/* The same for levels that were given up while copies of them may still run. */
void rlock__grant_mind_levels(struct rlock__grant *grant, int64_t now);
/* A release goes on without its call (NULL: there is no call). If the call is a group member's, the
 * group is in doubt until the release ends. */
void rlock__grant_doubt(struct rlock__grant *grant, struct rlock__call *call);
/* Shortens a lease that is asked for at that time, so that the hold does not last longer than
 * max_hold, counted from its first level. The lease never ends before the validity does. */
int64_t rlock__grant_cut(const struct rlock__grant *grant, int64_t lease_us, int64_t at);
/* The lease that an attempt asks for at that time. A nested level asks for no more than max_hold
 * leaves the whole hold. */
int64_t rlock__acquire_lease(const struct rlock__call *call, int64_t at);
/* A release granted the lock to its owner: its lease is short until the first renewal, which is due
 * soon. Many holds end before that, and need none. */
void rlock__grant_pushed(struct rlock__grant *grant, int64_t now);
/* The hold was granted or renewed at t0: its renewal is due a third of the lease later. */
void rlock__grant_due(struct rlock__grant *grant, int64_t t0, int64_t lease_us);

/* ---- extend.c: calls that wait until the hold is extended ---- */

/* The call waits for the grant's next renewal, which is due now. */
void rlock__extension_begin(struct rlock__grant *grant, struct rlock__call *call, int64_t now);
/* The call does not wait any more. */
void rlock__extension_end(struct rlock__call *call);
/* Whether calls wait for a hold that its owner has not given up. */
bool rlock__extensions_wait(const struct rlock__grant *grant);
/* The longest lease that they want of a renewal now; 0: none waits. */
int64_t rlock__extensions_lease(const struct rlock__grant *grant, int64_t now);
/* A renewal with that lease is about to be sent. */
void rlock__extensions_send(struct rlock__grant *grant, int64_t lease_us);
/* It has counted: the calls that it asked for are complete. */
void rlock__extensions_granted(struct rlock__grant *grant, int64_t lease_us, int64_t now);
/* It has not counted. may_have_run: nobody knows whether it ran. */
void rlock__extensions_failed(struct rlock__grant *grant, bool may_have_run);
/* The server refused it, and says why. is_final: another one would be refused too. */
void rlock__extensions_refused(struct rlock__grant *grant, int code, bool is_final,
                               const char *why);
/* The hold is over (reason 0), or was lost. */
void rlock__extensions_over(struct rlock__grant *grant, int reason);

#endif
