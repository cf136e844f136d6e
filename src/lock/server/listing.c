/* SPDX-License-Identifier: Apache-2.0 */
#include "lock/server/listing.h"

#include <assert.h>
#include <stdio.h>

#include "lock/server/route.h"

#define LIST_US RLOCK__SECOND

/* ---- The log ---- */

static void tell_out(struct rlock__server *server, struct rlock__replica *it)
{
    char why[64];

    assert(it->is_out && it->is_known && it->place[0] != '\0');
    if (!it->is_held_down) {
        (void)snprintf(why, sizeof(why), "no link for some seconds");
    } else if (it->n_asked != 0) {
        (void)snprintf(why, sizeof(why), "%u of %u Sentinels report it down", it->n_down,
                       it->n_asked);
    } else {
        (void)snprintf(why, sizeof(why), "the cluster reports it down");
    }
    rlock__note(server->core, RLOCK_LOG_WARNING, rlock__about("replicas", server->address, 0),
                "server %s: replica %s is left out (%s): if it is promoted before it has caught "
                "up, it loses what is granted now",
                server->address, it->place, why);
}

static void tell_one(struct rlock__server *server, struct rlock__replica *it)
{
    assert(RLOCK__IMPLIES(it->is_out, !it->is_listed));
    assert(RLOCK__IMPLIES(it->is_foreign, !it->is_known));
    if (it->is_out && !it->is_told) {
        tell_out(server, it);
        it->is_told = true;
    } else if (it->is_foreign && !it->is_told) {
        rlock__note(server->core, RLOCK_LOG_WARNING, rlock__about("replicas", server->address, 0),
                    "server %s: replica %s does not count: no failover promotes it",
                    server->address, it->place);
        it->is_told = true;
    } else if (it->is_told && !it->is_out && !it->is_foreign && it->is_known) {
        rlock__note(server->core, RLOCK_LOG_INFO, rlock__about("replicas", server->address, 0),
                    "server %s: replica %s is back: grants wait for it again", server->address,
                    it->place);
        it->is_told = false;
    }
}

/* If one server lists its replicas at known addresses, all servers do. */
void rlock__listing_expect(struct rlock__server *server)
{
    server->replicas.was_matched |= server->core->lists_names;
}

void rlock__listing_tell(struct rlock__server *server)
{
    struct rlock__replicas *all = &server->replicas;

    server->core->lists_names |= all->was_matched;
    if (server->core->opts.acks == RLOCK_ACKS_OFF) {
        return;
    }
    for (size_t i = 0; i < RLOCK__REPLICAS; i++) {
        tell_one(server, &all->each[i]);
    }
    if (all->is_strange && !server->listing.is_strange) {
        rlock__note(server->core, RLOCK_LOG_WARNING, rlock__about("replicas", server->address, 0),
                    "server %s lists its replicas at addresses that are not known: their number "
                    "counts, and a copy that no failover promotes counts too",
                    server->address);
    }
    server->listing.is_strange = all->is_strange;
}

/* ---- What the map and the writes report ---- */

bool rlock__listing_known(struct rlock__server *server, const struct rlock__replica_word words[],
                          size_t n, int64_t now)
{
    bool before = rlock__acks_are_possible(server);

    rlock__server_touch(server);
    if (words == NULL) {
        rlock__replicas_counted(&server->replicas, (unsigned)n);
    } else {
        rlock__replicas_known(&server->replicas, words, n, now);
    }
    rlock__listing_tell(server);
    if (server->replicas.n_known != 0 && !server->listing.timer.set) {
        rlock__timer_set(&server->core->timers, &server->listing.timer, now);
    }
    assert(server->replicas.n_known == 0 || server->listing.timer.set);
    return rlock__acks_are_possible(server) != before;
}

void rlock__listing_wrote(struct rlock__server *server, int64_t t0)
{
    if (server->core->driver.redirect != NULL) {
        rlock__replicas_alive(&server->replicas, t0);
    }
}

/* ---- The question ---- */

static void on_list(struct rlock__request *request, const struct rlock__reply *reply, int64_t now)
{
    struct rlock__server *server = request->subject;
    struct rlock__listing *listing = &server->listing;

    assert(listing->request == request && request->copies <= 1);
    assert(reply == NULL || server->links[0].pipeline.up);
    listing->request = NULL;
    (void)rlock__request_free(request);
    if (reply != NULL && rlock__reply_is_error(reply)) {
        if (!listing->is_refused) {
            rlock__note(server->core, RLOCK_LOG_WARNING,
                        rlock__about("replicas", server->address, 0),
                        "server %s does not permit INFO: no replica is left out", server->address);
        }
        listing->is_refused = true;
    } else if (reply != NULL) {
        rlock__listing_expect(server);
        rlock__replicas_listed(&server->replicas, rlock__reply_str(reply, 0), now);
        rlock__listing_tell(server);
    }
}

static void ask(struct rlock__server *server, int64_t now)
{
    struct rlock__pipeline *pipeline = &server->links[0].pipeline;
    struct rlock__request *request;

    assert(server->replicas.n_known != 0 && !server->core->closed);
    if (!pipeline->up || pipeline->drains || server->listing.request != NULL) {
        return;
    }
    request = rlock__request_new(&server->core->requests, on_list, server);
    if (request == NULL) {
        return;
    }
    request->resend = RLOCK__DROP;
    rlock__cmd_arg(&request->cmd, rlock__bytes_of("INFO"));
    rlock__cmd_arg(&request->cmd, rlock__bytes_of("replication"));
    rlock__replicas_ask(&server->replicas);
    rlock__server_touch(server);
    if (rlock__pipeline_submit(pipeline, request, now)) {
        assert(request->sent); /* on this connection and no other */
        server->listing.request = request;
    } else {
        (void)rlock__request_free(request);
    }
}

static void on_due(struct rlock__timer *timer, int64_t now)
{
    struct rlock__server *server = RLOCK__OF(struct rlock__server, listing.timer, timer);
    struct rlock__core *core = server->core;

    if (server->replicas.n_known != 0 && core->opts.acks != RLOCK_ACKS_OFF && !core->closed &&
        !server->listing.is_refused) {
        rlock__timer_set(&core->timers, timer, now + LIST_US);
        ask(server, now);
    }
}

void rlock__listing_begin(struct rlock__link *link, int64_t now)
{
    struct rlock__server *server = link->server;

    assert(link->pipeline.up);
    if (link == &server->links[0] && server->listing.timer.set) {
        rlock__timer_set(&server->core->timers, &server->listing.timer, now);
    }
}

void rlock__listing_init(struct rlock__server *server)
{
    assert(!server->listing.timer.set && server->listing.request == NULL);
    server->listing.timer.fire = on_due;
}
