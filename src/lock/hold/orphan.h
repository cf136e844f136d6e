/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RLOCK_LOCK_ORPHAN_H
#define RLOCK_LOCK_ORPHAN_H

#include <assert.h>

#include "lock/core.h"

/* A number that nobody here holds, and that is released until no copy of it can run. */
struct rlock__orphan {
    struct rlock__orphan *prev, *next;
    struct rlock__orphan *unsent_prev, *unsent_next;
    struct rlock__orphan *undone_prev, *undone_next; /* in grant.undone */
    struct rlock__core *core;
    struct rlock__spec *spec;
    uint64_t number;
    uint32_t count;
    struct rlock__copies copies;
    int64_t free_by;
    struct rlock__link *link; /* of its release, in flight or the next one */
    struct rlock__call *call;
    struct rlock__grant *grant; /* a level of it is undone; NULL none, or it is over */
    int64_t lease_us;           /* that this level asked for */
    struct rlock__doubt *doubt; /* of a group's member, held open until it ends; NULL none */
    struct rlock__request *request;
    bool is_unsent;
    bool seeks; /* copies on other links are to be overtaken there */
    struct rlock__timer timer;
    unsigned failures;
    bool garbled; /* an answer to its release made no sense */
};

/* If the call is a member's, its group is in doubt until the orphan ends. NULL: there was no memory
 * for the orphan. */
static inline void rlock__orphan_doubt(struct rlock__orphan *orphan, struct rlock__call *call)
{
    assert(orphan == NULL || orphan->doubt == NULL); /* else that one would never be closed */
    if (!call->member) {
        return;
    }
    if (orphan != NULL) {
        orphan->doubt = rlock__doubt_open(&call->doubt, orphan->free_by);
    } else {
        rlock__doubt_keep_open(&call->doubt);
    }
}

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
/* Sends the next releases, as many as may be in flight. */
void rlock__orphans_flush(struct rlock__link *link, int64_t now);
/* The map has changed: orphans that wait are released at the servers that have their keys now. */
void rlock__orphans_reroute(struct rlock__link *link);
void rlock__orphans_fini(struct rlock__core *core);

/* ---- spare.c: orphans for later ---- */

/* One that is as new; NULL without memory. */
struct rlock__orphan *rlock__orphan_alloc(struct rlock__core *core);
/* Keeps it for the next one, or frees it where enough are kept. */
void rlock__orphan_put_away(struct rlock__core *core, struct rlock__orphan *orphan);
/* Takes the spare of the call that has its turn on the hold. NULL: there is none. */
struct rlock__orphan *rlock__orphan_take_spare(const struct rlock__hold *hold);
/* Gives the call an orphan for later, when there may be no memory. False if there is none now. */
bool rlock__orphan_spare(struct rlock__call *call);
/* Takes it back when it was not needed. */
void rlock__orphan_unspare(struct rlock__call *call);
/* Frees those that are kept for the next calls. */
void rlock__orphans_trim(struct rlock__core *core);

#endif
