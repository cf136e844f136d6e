/* SPDX-License-Identifier: Apache-2.0 */
/* How numbers get into recovery: from an attempt, from a hold, or from a release. */
#include <assert.h>
#include <string.h>
#include <utlist.h>

#include "lock/common.h"
#include "lock/hold/hold.h"
#include "lock/hold/recovery.h"
#include "lock/server/channel.h"

/* A new ticket in recovery. Without memory the lease ends by itself, and the result is NULL. */
static struct rlock__ticket *begin_new(struct rlock__spec *spec, uint64_t number, int64_t free_by)
{
    struct rlock__ticket *ticket = rlock__ticket_new(spec->core, RLOCK__TICKET_RECOVERY, number);
    char name[96];

    if (ticket != NULL) {
        rlock__recovery_begin(ticket, spec, free_by);
    } else {
        rlock__note(spec->core, RLOCK_LOG_ERROR, rlock__about("release", NULL, RLOCK_ENOMEM),
                    "lock %s: no memory to release it", rlock__spec_text(spec, name));
    }
    return ticket;
}

struct rlock__ticket *rlock__recover_attempt(struct rlock__call *call, uint32_t count, bool waits,
                                             int64_t now)
{
    struct rlock__ticket *ticket = call->acquire.ticket;
    int64_t lease = rlock__acquire_lease(call, call->acquire.sent_at);

    assert(ticket->place == RLOCK__TICKET_CALL && ticket->number == call->number);
    assert(waits || count == 0); /* only a call that waits gives up a nested level */
    rlock__in_flight_add_sent(&ticket->in_flight, call->link, call->acquire.gen);
    rlock__recovery_begin(ticket, call->hold->spec, rlock__max(call->acquire.sent_at, 0) + lease);
    ticket->count = count;
    ticket->units = rlock__hold_units(call->hold, count);
    ticket->most_units = rlock__units_most(call->hold);
    ticket->call = waits ? call : NULL;
    call->acquire.ticket = waits ? ticket : NULL;
    if (count > 0) {
        ticket->grant = call->hold->grant;
        ticket->lease_us = lease;
        DL_APPEND2(ticket->grant->undone, ticket, undone_prev, undone_next);
    }
    if (ticket->adopts != NULL) {
        ticket->lease_us = lease;
    }
    rlock__recovery_release(ticket, now);
    return ticket;
}

bool rlock__recovery_adopts(const struct rlock__call *call)
{
    const struct rlock__ticket *ticket;

    DL_FOREACH(call->core->recovery.tickets, ticket) {
        if (ticket->adopts != NULL && rlock__spec_equal(ticket->spec, call->spec) &&
            strcmp(ticket->adopts, call->acquire.adopts) == 0) {
            return true;
        }
    }
    return false;
}

void rlock__recovery_doubt(struct rlock__ticket *ticket, struct rlock__call *call)
{
    assert(ticket->place == RLOCK__TICKET_RECOVERY);
    assert(ticket->doubt == NULL); /* nobody would close a doubt that was here before */
    if (call->member) {
        ticket->doubt = rlock__doubt_open(&call->doubt, ticket->free_by);
    }
}

/* What was in doubt until the hold's release ends is now in doubt until the recovery ends. */
static void take_doubt(struct rlock__ticket *ticket, struct rlock__hold *hold)
{
    if (hold->turn != NULL && hold->turn->kind == RLOCK__RELEASE) {
        rlock__recovery_doubt(ticket, hold->turn);
    } else {
        ticket->doubt = hold->grant->doubt;
        hold->grant->doubt = NULL;
    }
}

void rlock__recover_ended(struct rlock__hold *hold, int64_t now)
{
    struct rlock__ticket *ticket = hold->grant->ticket;

    assert(ticket->place == RLOCK__TICKET_HOLD && ticket->number == hold->grant->number);
    assert(hold->grant->lease_us > 0); /* without a lease the recovery would end at once */
    hold->grant->ticket = NULL;
    ticket->most_units = rlock__units_most(hold);
    rlock__recovery_begin(ticket, hold->spec, now + hold->grant->lease_us);
    rlock__recovery_release(ticket, now);
    take_doubt(ticket, hold);
}

void rlock__recover_lost(struct rlock__hold *hold, int64_t now)
{
    struct rlock__grant *grant = hold->grant;
    struct rlock__ticket *ticket = grant->ticket;
    int64_t free_by = now + grant->lease_us;

    assert(hold->state == RLOCK__HOLD_LOST);
    assert(!grant->is_numbered);
    grant->ticket = NULL;
    if (ticket != NULL) {
        rlock__recovery_begin(ticket, hold->spec, free_by);
    } else {
        ticket = begin_new(hold->spec, grant->number, free_by);
    }
    if (ticket != NULL) {
        ticket->most_units = rlock__units_most(hold);
        rlock__in_flight_add_sent(&ticket->in_flight, grant->link, grant->link->pipeline.gen);
        take_doubt(ticket, hold);
        rlock__recovery_line_up(ticket);
        /* the release goes out before a waiter here asks for the lock */
        rlock__recovery_flush(ticket->link, now);
    }
}

void rlock__recover_released(struct rlock__spec *spec, uint64_t number, struct rlock__in_flight set,
                             int64_t now)
{
    struct rlock__ticket *ticket = begin_new(spec, number, now + spec->core->opts.renewed_lease_us);

    if (ticket != NULL) {
        ticket->in_flight = set;
        rlock__recovery_line_up(ticket);
    }
}

/* Whether the number is a call's or a hold's, or is being released. */
static bool is_known(struct rlock__core *core, uint64_t number)
{
    const struct rlock__ticket *ticket;
    const struct rlock__call *call;

    DL_FOREACH(core->recovery.tickets, ticket) {
        if (ticket->number == number) {
            return true;
        }
    }
    DL_FOREACH2(core->calls, call, all.next)
    {
        if (call->number == number) {
            return true;
        }
    }
    return rlock__hold_by_number(core, number) != NULL;
}

/* A release reserved the lock for a number. If no call has it, gives the lock back. */
static void on_stray(const struct rlock__channel *channel, int64_t now)
{
    if (!is_known(channel->server->core, channel->stray)) {
        rlock__recover_released(channel->spec, channel->stray, (struct rlock__in_flight){0}, now);
    }
}

/* A call of another client waits for the hold with that number. It lingers no longer. */
static void on_awaited(const struct rlock__channel *channel, int64_t now)
{
    struct rlock__hold *hold = rlock__hold_by_number(channel->server->core, channel->awaited);

    if (hold != NULL) {
        hold->grant->is_awaited = true;
    }
    if (hold != NULL && hold->grant->lingers) {
        hold->grant->due = now;
        rlock__grant_plan(hold->grant);
    }
}

void rlock__told_of_numbers(struct rlock__server *server, int64_t now)
{
    struct rlock__channel *channel;

    while ((channel = server->sub.told) != NULL) {
        server->sub.told = channel->told_next;
        if (channel->stray != 0) {
            on_stray(channel, now);
        }
        if (channel->awaited != 0) {
            on_awaited(channel, now);
        }
        channel->stray = channel->awaited = 0;
    }
}
