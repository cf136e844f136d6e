/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The invariants of a core. If an assertion fails here, the event that just ended has broken the
 * core's books. A user would notice that much later, if ever.
 */
#include "lock/core/check.h"

#ifndef NDEBUG

#include <assert.h>
#include <utlist.h>

#include "lock/hold/hold.h"
#include "lock/hold/queue.h"
#include "lock/hold/recovery.h"
#include "lock/hold/renew.h"
#include "lock/server/route.h"
#include "lock/server/tracked.h"

#define AT_ONCE 64 /* calls, holds and recoveries; with more of them the check skips events */

/* ---- Calls ---- */

static bool sleeps(const struct rlock__call *call)
{
    return call->step == RLOCK__SLEEPING || call->step == RLOCK__SUBSCRIBING ||
           call->step == RLOCK__PAUSING;
}

/* Whether the call waits for the sender of its batch. */
static bool is_led(const struct rlock__call *call)
{
    return call->acquire.batch != NULL && call->acquire.batch->sender != call;
}

static bool is_under_way(const struct rlock__call *call)
{
    return call->request != NULL || call->acquire.look != NULL ||
           rlock__ack_is_open(&call->acquire.ack) || call->acquire.batch != NULL;
}

static void check_acquire(const struct rlock__call *call)
{
    bool gives_up = call->step == RLOCK__GIVING_UP;
    const struct rlock__ticket *ticket = call->acquire.ticket;
    bool has_grant = call->hold != NULL && call->hold->grant != NULL;

    assert(RLOCK__IMPLIES(sleeps(call) && !is_led(call), call->timer.set)); /* messages get lost */
    assert(RLOCK__IMPLIES(call->step == RLOCK__ASKING, is_under_way(call)));
    assert(RLOCK__IMPLIES(gives_up, call->code != 0 && call->timer.set));
    if (ticket != NULL) {
        assert(ticket->place == (gives_up ? RLOCK__TICKET_RECOVERY : RLOCK__TICKET_CALL));
        assert(ticket->number == call->number && ticket->call == (gives_up ? call : NULL));
    }
    assert(RLOCK__IMPLIES(call->acquire.look != NULL, call->step == RLOCK__ASKING));
    assert(RLOCK__IMPLIES(call->acquire.target > 1 && !gives_up, has_grant));
    assert(RLOCK__IMPLIES(call->acquire.queue != NULL && call->step == RLOCK__PAUSING,
                          rlock__queue_is_head(call)));
    assert(call->number <= call->core->last_number);
}

static void check_await(const struct rlock__call *call)
{
    assert(call->step == RLOCK__ASKING || call->step == RLOCK__SLEEPING);
    assert((call->request != NULL) == (call->step == RLOCK__ASKING));
    assert(call->timer.set || call->step == RLOCK__ASKING); /* messages get lost */
    assert(call->hold == NULL && call->acquire.queue == NULL && call->acquire.entry == NULL);
}

/* Whether the server tells the call that its key has changed, or is being asked to. */
static bool is_covered(const struct rlock__channel *channel)
{
    return !rlock__tracked_is_told(channel) || channel->is_armed ||
           channel->asked == RLOCK__ASKED_SUBSCRIBE;
}

static void check_call(const struct rlock__core *core, const struct rlock__call *call)
{
    bool lined_up = call->step == RLOCK__LINED_UP;

    assert(call->core == core && call->link != NULL);
    assert(call->step != RLOCK__NEW && call->step != RLOCK__COMPLETE);
    assert(call->why == 0);
    assert(RLOCK__IMPLIES(lined_up,
                          call->hold != NULL && call->hold->busy && call->hold->turn != call));
    assert(RLOCK__IMPLIES(call->hold != NULL && !lined_up, call->hold->turn == call));
    assert(RLOCK__IMPLIES(call->channel != NULL, call->channel->waiters != NULL));
    assert(RLOCK__IMPLIES(call->channel != NULL && call->channel->is_tracked &&
                              (call->step == RLOCK__SLEEPING || call->step == RLOCK__SUBSCRIBING),
                          is_covered(call->channel)));
    if (call->kind == RLOCK__ACQUIRE) {
        check_acquire(call);
    }
    if (call->kind == RLOCK__AWAIT) {
        check_await(call);
    }
}

/* ---- Holds ---- */

static void check_grant(const struct rlock__hold *hold)
{
    const struct rlock__grant *grant = hold->grant;
    const struct rlock__link *route = rlock__route(hold->spec);
    bool held = hold->state == RLOCK__HOLD_HELD;
    const struct rlock__ticket *ticket = grant->ticket, *level;

    assert(grant->hold == hold);
    assert(grant->is_numbered == held);
    assert(RLOCK__IMPLIES(held, rlock__hold_by_number(hold->spec->core, grant->number) == hold));
    assert(RLOCK__IMPLIES(held && route->server == grant->link->server, route == grant->link));
    assert(RLOCK__IMPLIES(held, grant->timer.set));
    assert(RLOCK__IMPLIES(held,
                          grant->valid_until <= grant->free_by)); /* the server's lease is longer */
    assert(RLOCK__IMPLIES(held, grant->free_by <= hold->spec->core->leased_until));
    assert(RLOCK__IMPLIES(grant->releasing || grant->release != NULL, hold->busy));
    assert(
        RLOCK__IMPLIES(grant->is_waiting, held && grant->timer.set && grant->batch_entry == NULL));
    assert(RLOCK__IMPLIES(grant->batch_entry != NULL, *grant->batch_entry == grant));
    assert(RLOCK__IMPLIES(grant->lingers, held && hold->is_hidden && grant->release == NULL));
    if (ticket != NULL) {
        assert(ticket->place == RLOCK__TICKET_HOLD && ticket->number == grant->number);
        assert(hold->state != RLOCK__HOLD_NONE);
    }
    DL_FOREACH2(grant->undone, level, undone_next)
    {
        assert(level->grant == grant && level->number == grant->number);
    }
}

/* The levels of the owner and of groups, and those that unlocks gave up. */
static void check_levels(const struct rlock__hold *hold)
{
    bool none = hold->state == RLOCK__HOLD_NONE, lost = hold->state == RLOCK__HOLD_LOST;

    assert(none ? hold->count == 0 : hold->count > 0 || (lost && hold->busy));
    assert(hold->members <= hold->count);
    assert(hold->renewed_from <= hold->count - hold->members);
    assert(hold->leaves.n + hold->owed.n <= hold->count);
    assert(hold->leaves.members <= hold->leaves.n && hold->owed.members <= hold->owed.n);
    assert(RLOCK__IMPLIES(lost, hold->owed.n == 0));
}

/* What the owner's thread reads without the mutex. */
static void check_view(const struct rlock__hold *hold)
{
    int64_t until = atomic_load(&hold->view->valid_until);
    uint32_t left = rlock__hold_left(hold), count = atomic_load(&hold->view->count);
    bool repeats = hold->turn != NULL || hold->lined > 0; /* maybe an unlock without an answer */

    assert(repeats ? count <= left : count == left);
    if (hold->state != RLOCK__HOLD_HELD || left == 0) {
        assert(until == 0);
    } else {
        assert(until == hold->grant->valid_until ||
               (until == 0 && (repeats || hold->grant->releasing)));
    }
}

static void check_line(const struct rlock__hold *hold)
{
    const struct rlock__grant *grant = hold->grant;
    const struct rlock__call *call;
    uint32_t unlocks = 0;

    assert(RLOCK__IMPLIES(hold->line != NULL || hold->turn != NULL, hold->busy));
    assert(RLOCK__IMPLIES(hold->busy,
                          hold->line != NULL || hold->turn != NULL ||
                              (grant != NULL && (grant->releasing || grant->release != NULL))));
    assert(RLOCK__IMPLIES(hold->turn != NULL, hold->turn->hold == hold));
    DL_FOREACH(hold->line, call) {
        assert(call->hold == hold && call->step == RLOCK__LINED_UP);
        unlocks += call->kind == RLOCK__RELEASE;
    }
    assert(hold->lined == unlocks);
}

static void check_hold(const struct rlock__hold *hold)
{
    struct rlock__owner owner = {.id = hold->owner_id, .given = hold->given};
    bool none = hold->state == RLOCK__HOLD_NONE;

    assert((rlock__hold_find(hold->spec->core, hold->spec, owner) == hold) == !hold->is_hidden);
    assert(RLOCK__IMPLIES(hold->is_hidden, hold->grant->releasing && hold->line == NULL));
    assert(RLOCK__IMPLIES(hold->sent > 0, hold->busy));
    assert(RLOCK__IMPLIES(none, hold->busy)); /* otherwise nobody needs the row */
    assert(RLOCK__IMPLIES(!none, hold->view != NULL && hold->grant != NULL));
    check_line(hold);
    check_levels(hold);
    if (hold->grant != NULL) {
        check_grant(hold);
    }
    if (hold->view != NULL) {
        check_view(hold);
    }
}

/* ---- Recoveries, links, servers ---- */

static void check_recovery(const struct rlock__ticket *ticket)
{
    const struct rlock__hold *hold = rlock__hold_by_number(ticket->core, ticket->number);

    assert(ticket->place == RLOCK__TICKET_RECOVERY);
    assert(ticket->is_unsent + (ticket->request != NULL) + ticket->timer.set == 1); /* it goes on */
    assert(ticket->in_flight.n <= RLOCK__IN_FLIGHT_MAX);
    assert(RLOCK__IMPLIES(ticket->call != NULL, ticket->call->acquire.ticket == ticket));
    assert(RLOCK__IMPLIES(ticket->count == 0, hold == NULL)); /* no hold has its number */
    assert(RLOCK__IMPLIES(ticket->grant != NULL, ticket->grant->number == ticket->number));
}

static void check_pipeline(const struct rlock__pipeline *pipeline)
{
    const struct rlock__request *request;

    assert(RLOCK__IMPLIES(!pipeline->up, pipeline->sent == NULL && pipeline->out.len == 0));
    assert(pipeline->written <= pipeline->taken && pipeline->taken <= pipeline->appended);
    assert(pipeline->fence.below <= pipeline->gen + 1);
    assert(pipeline->fence.n <= RLOCK__NAMELESS_MAX);
    for (unsigned i = 0; i < pipeline->fence.n; i++) {
        assert(pipeline->fence.nameless[i] <= pipeline->gen);
    }
    DL_FOREACH(pipeline->sent, request) {
        assert(request->sent && request->gen == pipeline->gen && request->copies > 0);
    }
    DL_FOREACH(pipeline->waiting, request) {
        assert(!request->sent);
    }
}

static void check_link(const struct rlock__link *link)
{
    const struct rlock__ticket *ticket;
    const struct rlock__ack *ack;

    check_pipeline(&link->pipeline);
    assert(rlock__renew_is_planned(link));
    assert(link->overdue.set ? link->overdue.at == rlock__pipeline_overdue_at(&link->pipeline)
                             : rlock__pipeline_overdue_at(&link->pipeline) == RLOCK__NEVER);
    assert(link->unsent == NULL || !link->pipeline.up || link->releasing >= RLOCK__RELEASES);
    assert(link->n_unfenced <= RLOCK__UNFENCED_MAX);
    assert(link->n_granted >= 0);
    DL_FOREACH(link->acks, ack) {
        assert(ack->link == link && ack->is_open);
    }
    DL_FOREACH2(link->unsent, ticket, unsent_next)
    {
        assert(ticket->is_unsent && ticket->link == link);
    }
}

/* ---- The whole ---- */

/* What the links have counted. */
struct sums {
    int64_t granted;
    uint64_t releasing;
    unsigned lingering; /* that rows have */
    unsigned connecting;
};

static struct sums check_servers(const struct rlock__core *core)
{
    const struct rlock__server *server;
    struct sums sums = {0};

    DL_FOREACH(core->servers, server) {
        assert(server->core == core && server->sub.unsettled == NULL && !server->is_touched);
        assert(server->n_routed <= server->n_links && server->n_links <= RLOCK__LINKS_MAX);
        sums.connecting += server->sub.tries.connecting;
        for (unsigned i = 0; i < server->n_links; i++) {
            check_link(&server->links[i]);
            sums.granted += server->links[i].n_granted;
            sums.releasing += server->links[i].releasing;
            sums.connecting += server->links[i].tries.connecting;
        }
    }
    return sums;
}

/* Returns how many calls, holds and recoveries there are. */
static unsigned check_all(const struct rlock__core *core)
{
    struct sums sums = check_servers(core);
    const struct rlock__ticket *ticket;
    const struct rlock__hold *hold;
    const struct rlock__call *call;
    size_t unreleased = 0;
    unsigned n = 0;

    assert(core->ready == NULL);
    assert(sums.connecting == core->n_connecting);
    DL_FOREACH2(core->calls, call, all.next)
    {
        check_call(core, call);
        n++;
    }
    DL_FOREACH(core->rows.holds, hold) {
        check_hold(hold);
        sums.granted -= hold->grant != NULL && hold->grant->is_numbered;
        sums.lingering += hold->grant != NULL && hold->grant->lingers;
        n++;
    }
    DL_FOREACH(core->recovery.tickets, ticket) {
        check_recovery(ticket);
        sums.releasing -= ticket->request != NULL;
        unreleased++;
        n++;
    }
    assert(sums.granted == 0 && sums.releasing == 0);
    assert(sums.lingering == core->rows.n_lingering);
    assert(unreleased == core->stats.unreleased);
    return n;
}

void rlock__core_check(struct rlock__core *core)
{
    if (core->unchecked > 0) {
        core->unchecked--;
    } else {
        core->unchecked = check_all(core) / AT_ONCE;
    }
}

#endif
