/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A number is in recovery if no owner here holds it and a copy of its attempts may still run: an
 * attempt was given up, or a hold expired. The client sends a release behind the last copy on the
 * same link, and after a break again on the next connection. The recovery ends when a reply proves
 * that no copy can run: before the last release was sent, each copy was answered or overtaken on
 * its own link, or its link was fenced. If the key has moved, copies may lie on other links than
 * the key's: a release is sent over those links too. The server's reply proves what the copies
 * before it did there; a refusal proves only that the server has read them. If the server does not
 * let us fence, the client sends a release at each renewal tick until a lease after the last copy.
 *
 * The release of a call's attempt is sent at once if the link is up. All others wait in
 * link.unsent.
 */
#include <assert.h>
#include <stdlib.h>
#include <utlist.h>

#include "lock/common.h"
#include "lock/hold/hold.h"
#include "lock/hold/recent.h"
#include "lock/hold/recovery.h"
#include "lock/server/classify.h"
#include "lock/server/hop.h"
#include "lock/server/route.h"
#include "lock/server/send.h"

static void end(struct rlock__ticket *ticket)
{
    struct rlock__core *core = ticket->core;

    assert(ticket->place == RLOCK__TICKET_RECOVERY);
    assert(ticket->is_unsent + (ticket->request != NULL) + ticket->timer.set <= 1);
    assert(ticket->request == NULL || ticket->link->releasing > 0);
    assert(ticket->call == NULL || ticket->call->acquire.ticket == ticket);
    rlock__timer_unset(&core->bulk, &ticket->timer);
    if (ticket->request != NULL) {
        ticket->request->subject = NULL;
        ticket->request = NULL;
        ticket->link->releasing--;
        rlock__server_touch(ticket->link->server);
    }
    if (ticket->is_unsent) {
        DL_DELETE2(ticket->link->unsent, ticket, unsent_prev, unsent_next);
        ticket->is_unsent = false;
    }
    if (ticket->grant != NULL) {
        DL_DELETE2(ticket->grant->undone, ticket, undone_prev, undone_next);
    }
    if (ticket->call != NULL) {
        ticket->call->acquire.ticket = NULL;
    }
    DL_DELETE(core->recovery.tickets, ticket);
    core->stats.unreleased--;
    ticket->doubt = rlock__doubt_close(ticket->doubt);
    (void)rlock__spec_unref(ticket->spec);
    (void)rlock__ticket_free(core, ticket);
}

/* Returns another link than the key's that is up and has a copy to overtake, or a copy whose effect
 * can be undone there; NULL: none. */
static struct rlock__link *elsewhere(const struct rlock__ticket *ticket,
                                     const struct rlock__link *route)
{
    for (unsigned i = 0; i < ticket->in_flight.n; i++) {
        const struct rlock__open_copy *open = &ticket->in_flight.open[i];

        if (open->link != route && open->link->pipeline.up &&
            (open->unproven || open->link->pipeline.gen == open->sent)) {
            return open->link;
        }
    }
    return NULL;
}

/* Decides which link the next release goes over. The first release goes to the key's server,
 * because waiters of the lock depend on that one. */
static struct rlock__link *choose(struct rlock__ticket *ticket)
{
    struct rlock__link *route = rlock__route(ticket->spec);
    struct rlock__link *other = ticket->seeks ? elsewhere(ticket, route) : NULL;

    ticket->link = other != NULL ? other : route;
    return ticket->link;
}

void rlock__recovery_line_up(struct rlock__ticket *ticket)
{
    struct rlock__link *link = choose(ticket);

    assert(ticket->request == NULL && !ticket->timer.set);
    rlock__server_touch(link->server);
    ticket->is_unsent = true;
    link->server->is_let_go = false;
    if (ticket->call != NULL) {
        DL_PREPEND2(link->unsent, ticket, unsent_prev, unsent_next);
    } else {
        DL_APPEND2(link->unsent, ticket, unsent_prev, unsent_next);
    }
}

void rlock__recovery_reroute(struct rlock__link *link)
{
    struct rlock__ticket *ticket, *after, *unsent = link->unsent;

    link->unsent = NULL;
    DL_FOREACH_SAFE2(unsent, ticket, after, unsent_next)
    {
        rlock__recovery_line_up(ticket);
    }
}

static void on_timer(struct rlock__timer *timer, int64_t now)
{
    (void)now;
    rlock__recovery_line_up(RLOCK__OF(struct rlock__ticket, timer, timer));
}

static void plan(struct rlock__ticket *ticket, int64_t at)
{
    assert(!ticket->is_unsent && ticket->request == NULL);
    rlock__timer_set(&ticket->core->bulk, &ticket->timer, at);
}

/* A copy is still open. Releases the number again: at once if that may prove more, otherwise at the
 * next renewal tick. Ends when the lease is over as far as we can know, and no copy waits to be
 * fenced. */
static void go_on(struct rlock__ticket *ticket, int64_t now)
{
    int64_t last = ticket->free_by +
                   (rlock__in_flight_may_be_fenced(&ticket->in_flight) ? RLOCK__UNUSED_US : 0);
    bool fenced = rlock__in_flight_fence(&ticket->in_flight);

    ticket->seeks = true;
    if (fenced || elsewhere(ticket, rlock__route(ticket->spec)) != NULL) {
        rlock__recovery_line_up(ticket);
        return;
    }
    if (now >= last) {
        end(ticket);
        return;
    }
    plan(ticket, rlock__min(now + ticket->core->opts.renewed_lease_us / 3, last));
}

/* The garbled answer has cost a connection, and another try may cost one too. So it must not come
 * at once. Even after the end of the lease there is one more try, because a place in a server's
 * queue does not end with the lease. */
static void on_garbled(struct rlock__ticket *ticket, int64_t now)
{
    if (now >= ticket->free_by && ticket->garbled) {
        end(ticket);
        return;
    }
    ticket->garbled = true;
    plan(ticket, now + ticket->core->opts.renewed_lease_us / 3);
}

static void on_error(struct rlock__ticket *ticket, const struct rlock__reply *reply, int64_t now)
{
    struct rlock__class class = rlock__core_classify(ticket->core, reply);

    if (class.way == RLOCK__GIVE_UP && now >= ticket->free_by) { /* not permitted, say */
        end(ticket);
    } else {
        plan(ticket, now + rlock__backoff(ticket->core, ticket->failures++));
    }
}

/* The server does not have the number any more. */
static void on_released(struct rlock__ticket *ticket, int64_t now)
{
    struct rlock__call *call = ticket->call;

    rlock__grant_mind_levels(ticket->grant, now);
    if (ticket->in_flight.n > 0 || ticket->in_flight.beyond) {
        go_on(ticket, now);
        return;
    }
    if (ticket->count == 0) {
        rlock__recent_add(ticket->link, ticket->spec, ticket->number, ticket->in_flight.replaced,
                          now);
    }
    end(ticket);
    if (call != NULL) {
        rlock__ready(call, RLOCK__SETTLED);
    }
}

/* If the reply says so, sends the release on to the server that has the key: see rlock__hop(),
 * rlock__hop_home(). Returns whether it did. */
static bool hops(struct rlock__ticket *ticket, struct rlock__request *request,
                 const struct rlock__reply *reply, int64_t now)
{
    const struct rlock__pipeline *pipeline = &ticket->link->pipeline;
    uint64_t gen = request->gen;
    /* no server has read a request that waited for its link when the slot map changed */
    bool was_read = reply != NULL && pipeline->up && gen == pipeline->gen;
    bool good = reply != NULL && !rlock__reply_is_error(reply);
    bool gone = good && ticket->spec->ops->read_release(reply).outcome == RLOCK__GONE;
    bool hopped = rlock__hop(request, reply, now);

    if (was_read && (good || hopped)) {
        rlock__in_flight_answered(&ticket->in_flight, ticket->link, gen);
    } else if (was_read) {
        rlock__in_flight_read(&ticket->in_flight, ticket->link, gen);
    }
    if (!hopped && !(gone && rlock__hop_home(request, now))) {
        return false;
    }
    ticket->link->releasing--;
    ticket->link = request->link;
    ticket->link->releasing++;
    return true;
}

static void on_answer(struct rlock__request *request, const struct rlock__reply *reply, int64_t now)
{
    struct rlock__ticket *ticket = request->subject;
    bool garbled = request->garbled;

    assert(ticket == NULL || (ticket->request == request && ticket->link->releasing > 0));
    if (ticket != NULL && hops(ticket, request, reply, now)) {
        return;
    }
    (void)rlock__request_free(request);
    if (ticket == NULL) {
        return;
    }
    ticket->request = NULL;
    ticket->link->releasing--;
    if (garbled) {
        on_garbled(ticket, now);
        return;
    }
    if (reply == NULL) { /* the link broke: the next connection sends it */
        rlock__recovery_line_up(ticket);
        return;
    }
    if (rlock__reply_is_error(reply)) {
        on_error(ticket, reply, now);
    } else {
        on_released(ticket, now);
    }
}

/* A number that was to take over a hold gives it back. */
static struct rlock__request *give_back(struct rlock__ticket *ticket, int64_t now)
{
    return rlock__rename_send(ticket->spec, ticket->link, ticket->number,
                              rlock__bytes_of(ticket->adopts), ticket->lease_us, on_answer, ticket,
                              now);
}

static struct rlock__request *release(struct rlock__ticket *ticket, int64_t now)
{
    const struct rlock__rest rest = {.number = ticket->number,
                                     .count = ticket->count,
                                     .units = ticket->units,
                                     .most_units = ticket->most_units};

    return rlock__release_send(ticket->spec, ticket->link, &rest, on_answer, ticket, now);
}

static void send(struct rlock__ticket *ticket, int64_t now)
{
    assert(!ticket->is_unsent && ticket->request == NULL && !ticket->timer.set);
    assert(ticket->link->pipeline.up);
    rlock__in_flight_fence(&ticket->in_flight);
    ticket->request = ticket->adopts != NULL ? give_back(ticket, now) : release(ticket, now);
    if (ticket->request == NULL) {
        plan(ticket, now + rlock__backoff(ticket->core, ticket->failures++));
        return;
    }
    ticket->request->resend = RLOCK__ONCE;
    ticket->link->releasing++;
}

static bool is_time(const struct rlock__link *link)
{
    return link->pipeline.up && link->releasing < RLOCK__RELEASES;
}

void rlock__recovery_flush(struct rlock__link *link, int64_t now)
{
    while (link->unsent != NULL && is_time(link)) {
        struct rlock__ticket *ticket = link->unsent;

        DL_DELETE2(link->unsent, ticket, unsent_prev, unsent_next);
        ticket->is_unsent = false;
        send(ticket, now);
    }
}

void rlock__recovery_begin(struct rlock__ticket *ticket, struct rlock__spec *spec, int64_t free_by)
{
    assert(ticket->place != RLOCK__TICKET_SPARE && ticket->core == NULL);
    ticket->place = RLOCK__TICKET_RECOVERY;
    ticket->core = spec->core;
    ticket->spec = rlock__spec_ref(spec);
    ticket->free_by = free_by + RLOCK__MS;
    ticket->timer.fire = on_timer;
    DL_APPEND(spec->core->recovery.tickets, ticket);
    spec->core->stats.unreleased++;
}

void rlock__recovery_release(struct rlock__ticket *ticket, int64_t now)
{
    if (choose(ticket)->pipeline.up) {
        send(ticket, now);
    } else {
        rlock__recovery_line_up(ticket);
    }
}

void rlock__recovery_supersede(struct rlock__call *call)
{
    struct rlock__ticket *ticket, *after;

    DL_FOREACH_SAFE2(call->hold->grant->undone, ticket, after, undone_next)
    {
        if (ticket->number != call->number) {
            continue;
        }
        assert(ticket->call == NULL);  /* the call that gave up has left the hold */
        if (ticket->request != NULL) { /* after NOSCRIPT it would run behind the attempt */
            ticket->request->resend = RLOCK__DROP;
        }
        rlock__in_flight_join(&call->acquire.ticket->in_flight, &ticket->in_flight);
        if (rlock__has_units(call->spec) && ticket->most_units > call->acquire.undone_units) {
            call->acquire.undone_units = (uint16_t)ticket->most_units;
        }
        end(ticket);
    }
}

void rlock__recovery_forget(struct rlock__call *call)
{
    if (call->acquire.ticket != NULL) {
        assert(call->acquire.ticket->call == call);
        call->acquire.ticket->call = NULL;
        call->acquire.ticket = NULL;
    }
}

void rlock__recovery_fini(struct rlock__core *core)
{
    struct rlock__ticket *ticket, *after;

    DL_FOREACH_SAFE(core->recovery.tickets, ticket, after) {
        end(ticket);
    }
}
