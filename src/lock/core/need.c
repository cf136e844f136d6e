/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Closes the connections to servers of a cluster that nothing here has needed for a while. They are
 * made again when the client has something to send to the server.
 *
 * A server is needed if it has holds, waiters, numbers to release, or broken connections that are
 * still to be killed. Nothing of ours can run on a connection on which all requests were answered.
 * So a connection that is closed here need not be killed later.
 */
#include <utlist.h>

#include "lock/core/finish.h"
#include "lock/hold/ticket.h"
#include "lock/server/listener.h"
#include "lock/server/route.h"

/* Whether closing the link's connection would lose or interrupt anything. */
static bool is_in_use(const struct rlock__link *link)
{
    const struct rlock__pipeline *pipeline = &link->pipeline;

    return pipeline->sent != NULL || pipeline->waiting != NULL || pipeline->out.len != 0 ||
           pipeline->close || link->tries.connecting || link->n_unfenced != 0 ||
           link->unsent != NULL || link->acks != NULL;
}

static bool is_needed(const struct rlock__server *server, int64_t now)
{
    bool is = server->channels.n != 0 || server->gathered != NULL ||
              now < server->used_at + server->core->opts.unused_us;

    for (unsigned i = 0; i < server->n_links; i++) {
        is = is || is_in_use(&server->links[i]);
    }
    return is;
}

static void let_go(struct rlock__server *server, int64_t now)
{
    server->is_let_go = true;
    rlock__server_touch(server);
    for (unsigned i = 0; i < server->n_links; i++) {
        struct rlock__link *link = &server->links[i];

        rlock__timer_unset(&server->core->timers, &link->idle);
        link->code = 0; /* as before the first connection */
        link->final = false;
        link->is_let_go = link->pipeline.up;
        rlock__pipeline_break(&link->pipeline, "nothing needs it", now);
    }
}

/* Notes the servers of holds, recoveries, calls and listeners. Returns false if there are more than
 * one event may visit. Then all servers count as needed. */
static bool note_needs(struct rlock__core *core, int64_t now)
{
    struct rlock__hold *hold;
    struct rlock__ticket *ticket;
    struct rlock__call *call;
    struct rlock__listener *listener;
    unsigned n = 0;

    DL_FOREACH(core->rows.holds, hold) {
        if (++n > RLOCK__SLICE) {
            return false;
        }
        rlock__server_need(rlock__route(hold->spec)->server, now);
    }
    DL_FOREACH(core->recovery.tickets, ticket) {
        if (++n > RLOCK__SLICE) {
            return false;
        }
        rlock__server_need(rlock__route(ticket->spec)->server, now);
        for (unsigned i = 0; i < ticket->in_flight.n; i++) {
            rlock__server_need(ticket->in_flight.open[i].link->server, now);
        }
    }
    DL_FOREACH2(core->calls, call, all.next)
    {
        if (++n > RLOCK__SLICE) {
            return false;
        }
        rlock__server_need(rlock__route(call->spec)->server, now);
    }
    DL_FOREACH2(core->listeners, listener, all_next)
    {
        if (++n > RLOCK__SLICE) {
            return false;
        }
        rlock__server_need(rlock__route(listener->spec)->server, now);
    }
    return true;
}

static void on_look(struct rlock__timer *timer, int64_t now)
{
    struct rlock__core *core = RLOCK__OF(struct rlock__core, needs, timer);
    struct rlock__server *server;

    rlock__timer_set(&core->timers, timer, now + core->opts.unused_us / 4);
    if (!note_needs(core, now)) {
        return;
    }
    DL_FOREACH(core->servers, server) {
        bool was_used = server->used_at != 0; /* an unused server has no connections */

        if (was_used && !server->is_let_go && !is_needed(server, now)) {
            let_go(server, now);
        }
    }
}

void rlock__needs_begin(struct rlock__core *core, int64_t now)
{
    if (core->driver.slot != NULL && !core->needs.set) {
        core->needs.fire = on_look;
        core->opts.unused_us = core->opts.unused_us != 0 ? core->opts.unused_us : RLOCK__UNUSED_US;
        rlock__timer_set(&core->timers, &core->needs, now + core->opts.unused_us / 4);
    }
}
