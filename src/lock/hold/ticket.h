/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A ticket is what the client remembers of one number until no transmission of the number can run
 * any more. Whoever answers for the number has its ticket:
 *
 *   CALL       call.acquire.ticket, from the first attempt on. So a call can give up without memory
 *   HOLD       grant.ticket: the number is held, and transmissions of its attempts are open. Nearly
 *              no hold has one
 *   RECOVERY   core.recovery.tickets: nobody here holds the number (hold/recovery.h)
 *   SPARE      core.recovery.spares: of no number. A few are kept for the next calls
 *
 * A ticket that has nothing open and is in no recovery returns to the spares.
 */
#ifndef RLOCK_LOCK_TICKET_H
#define RLOCK_LOCK_TICKET_H

#include "lock/core.h"
#include "lock/server/in_flight.h"

enum rlock__ticket_place {
    RLOCK__TICKET_SPARE,
    RLOCK__TICKET_CALL,
    RLOCK__TICKET_HOLD,
    RLOCK__TICKET_RECOVERY,
};

struct rlock__ticket {
    struct rlock__ticket *prev, *next; /* in core.recovery.tickets, or .spares */
    struct rlock__in_flight in_flight;
    enum rlock__ticket_place place;
    uint64_t number;

    /* RECOVERY; zero elsewhere */
    struct rlock__ticket *unsent_prev, *unsent_next; /* in link.unsent */
    struct rlock__ticket *undone_prev, *undone_next; /* in grant.undone */
    struct rlock__core *core;
    struct rlock__spec *spec;
    int64_t free_by;          /* the server has forgotten the number by then */
    struct rlock__link *link; /* of its release, in flight or the next one */
    struct rlock__request *request;
    struct rlock__timer timer;
    struct rlock__call *call;   /* that waits for the end of the recovery; NULL: none */
    struct rlock__grant *grant; /* of which a level is undone; NULL: none, or that is over */
    int64_t lease_us;           /* that this level asked for */
    struct rlock__doubt *doubt; /* of a group's member, open until the recovery ends; NULL: none */
    uint32_t count;             /* what the release leaves: 0, or the outer levels */
    unsigned failures;
    bool is_unsent;
    bool seeks;   /* copies on other links are to be overtaken there */
    bool garbled; /* an answer to its release made no sense */
};

/* A ticket of this number, in this place. NULL: without memory. */
struct rlock__ticket *rlock__ticket_new(struct rlock__core *core, enum rlock__ticket_place place,
                                        uint64_t number);
/* The ticket returns to the spares, as new; NULL is ok. Returns NULL. */
struct rlock__ticket *rlock__ticket_free(struct rlock__core *core, struct rlock__ticket *ticket);
/* Whether a copy of the number may run yet, or may have run; of NULL not. */
bool rlock__ticket_is_open(const struct rlock__ticket *ticket);
/* Whether a copy of the number may run yet; of NULL not. */
bool rlock__ticket_may_run(const struct rlock__ticket *ticket);
/* The call was granted its number. What is open of it is the hold's from now on. */
void rlock__ticket_hand_over(struct rlock__call *call, struct rlock__grant *grant);
/* The hold of the grant is over, while levels of it are still in recovery. */
void rlock__tickets_outlive(struct rlock__grant *grant);
/* Frees the spares. */
void rlock__tickets_trim(struct rlock__core *core);

#endif
