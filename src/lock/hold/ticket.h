/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A ticket is what the client remembers of one number until no copy of the number can run any more.
 * The ticket is in one of these places:
 *
 *   CALL       call.acquire.ticket, from the first attempt on until the call is granted, gives up
 *              or ends. So a call needs no memory to give up
 *   HOLD       grant.ticket: the number is held, and copies of its attempts are open. Very few
 *              holds have a ticket
 *   RECOVERY   core.recovery.tickets: no owner here holds the number, or not the level that was
 *              given up (hold/recovery.h). A call that waits for the end points to the ticket
 *   SPARE      core.recovery.spares: the ticket has no number. A few are kept for the next calls
 *
 * When a call ends and nothing of its number is open, the ticket returns to the spares; so does a
 * ticket whose recovery ends.
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
    uint32_t most_units; /* RECOVERY: that the number may have */
    uint64_t number;
    /* An adoption takes the hold from this owner, and gives it back. NULL: no adoption, or the
     * server granted the attempt */
    char *adopts;

    /* RECOVERY; zero elsewhere */
    struct rlock__ticket *unsent_prev, *unsent_next; /* in link.unsent */
    struct rlock__ticket *undone_prev, *undone_next; /* in grant.undone */
    struct rlock__core *core;
    struct rlock__spec *spec;
    int64_t free_by;          /* the server has forgotten the number by then */
    struct rlock__link *link; /* for its release, in flight or next */
    struct rlock__request *request;
    struct rlock__timer timer;
    struct rlock__call *call;   /* waits for the end of the recovery; NULL: none */
    struct rlock__grant *grant; /* its level is undone; NULL: none, or the hold is over */
    int64_t lease_us;           /* the lease that this level, or this adoption, asked for */
    struct rlock__doubt *doubt; /* a group member's, open until the recovery ends; NULL: none */
    uint32_t count;             /* the hold count that the release leaves: 0, or the outer levels */
    uint32_t units;             /* that these levels have */
    unsigned failures;
    bool is_unsent;
    bool seeks;   /* releases go also over other links that have copies */
    bool garbled; /* an answer to its release made no sense */
};

/* Returns a ticket of this number, in this place; NULL without memory. */
struct rlock__ticket *rlock__ticket_new(struct rlock__core *core, enum rlock__ticket_place place,
                                        uint64_t number);
/* The ticket returns to the spares, as new; NULL is ok. Returns NULL. */
struct rlock__ticket *rlock__ticket_free(struct rlock__core *core, struct rlock__ticket *ticket);
/* Whether a copy of the number may still run, or may have run. False for NULL. */
bool rlock__ticket_is_open(const struct rlock__ticket *ticket);
/* Whether a copy of the number may still run. False for NULL. */
bool rlock__ticket_may_run(const struct rlock__ticket *ticket);
/* The server granted the call's number. The hold takes over what is open. */
void rlock__ticket_hand_over(struct rlock__call *call, struct rlock__grant *grant);
/* The hold of the grant is over, while levels of it are still in recovery. */
void rlock__tickets_outlive(struct rlock__grant *grant);
/* Frees the spares. */
void rlock__tickets_trim(struct rlock__core *core);

#endif
