/* SPDX-License-Identifier: Apache-2.0 */
#include "lock/hold/ticket.h"

#include <assert.h>
#include <stdlib.h>
#include <utlist.h>

static struct rlock__ticket *take_spare(struct rlock__core *core)
{
    struct rlock__ticket *ticket = core->recovery.spares;

    assert((core->recovery.n_spares == 0) == (ticket == NULL));
    if (ticket != NULL) {
        core->recovery.spares = ticket->next;
        ticket->next = NULL;
        core->recovery.n_spares--;
    }
    return ticket;
}

struct rlock__ticket *rlock__ticket_new(struct rlock__core *core, enum rlock__ticket_place place,
                                        uint64_t number)
{
    struct rlock__ticket *ticket = take_spare(core);

    assert(place != RLOCK__TICKET_SPARE && number != 0);
    ticket = ticket != NULL ? ticket : calloc(1, sizeof(*ticket));
    if (ticket != NULL) {
        assert(ticket->place == RLOCK__TICKET_SPARE && ticket->core == NULL); /* spares are clear */
        assert(ticket->in_flight.n == 0 && !ticket->in_flight.replaced);
        ticket->place = place;
        ticket->number = number;
    }
    return ticket;
}

/* Whether the ticket has nothing to remember. */
static bool is_blank(const struct rlock__ticket *ticket)
{
    return !rlock__in_flight_is_open(&ticket->in_flight) && !ticket->in_flight.replaced;
}

static void forget_adopted(struct rlock__ticket *ticket)
{
    if (ticket->adopts != NULL) {
        free(ticket->adopts);
        ticket->adopts = NULL;
    }
}

struct rlock__ticket *rlock__ticket_free(struct rlock__core *core, struct rlock__ticket *ticket)
{
    if (ticket == NULL) {
        return NULL;
    }
    assert(ticket->place != RLOCK__TICKET_SPARE);
    assert(!ticket->timer.set && ticket->request == NULL && !ticket->is_unsent);
    assert(ticket->doubt == NULL); /* its group would be in doubt for ever */
    forget_adopted(ticket);
    if (ticket->place == RLOCK__TICKET_RECOVERY || !is_blank(ticket)) {
        *ticket = (struct rlock__ticket){0};
    }
    ticket->place = RLOCK__TICKET_SPARE;
    if (core->recovery.n_spares < RLOCK__IDLE) {
        LL_PREPEND(core->recovery.spares, ticket);
        core->recovery.n_spares++;
    } else {
        free(ticket);
    }
    return NULL;
}

bool rlock__ticket_is_open(const struct rlock__ticket *ticket)
{
    return ticket != NULL && rlock__in_flight_is_open(&ticket->in_flight);
}

bool rlock__ticket_may_run(const struct rlock__ticket *ticket)
{
    return ticket != NULL && rlock__in_flight_may_run(&ticket->in_flight);
}

void rlock__ticket_hand_over(struct rlock__call *call, struct rlock__grant *grant)
{
    struct rlock__ticket *ticket = call->acquire.ticket;

    assert(ticket->place == RLOCK__TICKET_CALL && ticket->number == grant->number);
    if (is_blank(ticket)) {
        return; /* the end of the call frees it */
    }
    if (grant->ticket != NULL) { /* a nested level: the hold has a ticket already */
        assert(grant->ticket->number == ticket->number);
        rlock__in_flight_join(&grant->ticket->in_flight, &ticket->in_flight);
        return;
    }
    forget_adopted(ticket);
    ticket->place = RLOCK__TICKET_HOLD;
    grant->ticket = ticket;
    call->acquire.ticket = NULL;
}

void rlock__tickets_outlive(struct rlock__grant *grant)
{
    struct rlock__ticket *ticket, *after;

    DL_FOREACH_SAFE2(grant->undone, ticket, after, undone_next)
    {
        ticket->grant = NULL;
    }
    grant->undone = NULL;
}

void rlock__tickets_trim(struct rlock__core *core)
{
    struct rlock__ticket *ticket;

    while ((ticket = take_spare(core)) != NULL) {
        free(ticket);
    }
    assert(core->recovery.n_spares == 0);
}
