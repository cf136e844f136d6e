/* SPDX-License-Identifier: Apache-2.0 */
#include "lock/server/server.h"

#include <assert.h>
#include <stdio.h>
#include <utlist.h>

#include "lock/common.h"
#include "lock/server/channel.h"
#include "lock/server/listing.h"

/* A server that is broken may report any number; its sums must not overflow. */
#define MOST_SECONDS (RLOCK__MOST_MS / 1000)

void rlock__server_init(struct rlock__server *server, struct rlock__core *core, unsigned n_routed,
                        unsigned n_acks)
{
    assert(n_routed > 0 && n_routed + n_acks <= RLOCK__LINKS_MAX);
    server->core = core;
    server->n_routed = n_routed;
    server->n_links = n_routed + n_acks;
    server->started_at = RLOCK__UNKNOWN;
    rlock__listing_init(server);
    for (unsigned i = 0; i < server->n_links; i++) {
        rlock__link_init(&server->links[i], server);
    }
}

void rlock__server_fini(struct rlock__server *server)
{
    assert(server->channels.n == 0 && server->stocks.n == 0);
    rlock__acks_drop(server, 0);
    for (unsigned i = 0; i < server->n_links; i++) {
        rlock__link_fini(&server->links[i]);
    }
    assert(server->gathered == NULL);
    rlock__buf_fini(&server->sub.out);
}

/* ---- Its age ---- */

/*
 * When the server started, or later. The server's uptime is the difference of two wall clock times
 * without their fractions of a second. So it may be nearly a second too much, and any number at all
 * once that clock was set.
 */
static int64_t start_of(int64_t uptime_s, int64_t now)
{
    int64_t passed = rlock__min(rlock__max(uptime_s - 1, 0), MOST_SECONDS);

    return uptime_s < 0 ? now : now - passed * RLOCK__SECOND;
}

/*
 * A client that saw another run of the server before need not trust its clock: this run has just
 * started. That is true even if the server does not report its run or its uptime any more. For the
 * same run the client keeps the latest start that the server ever reported, since the server's
 * clock may have been set forward. But the server was running when the client first saw this run.
 */
static void note_age(struct rlock__server *server, int64_t uptime_s, bool restarted, int64_t now)
{
    server->is_age_told = uptime_s != RLOCK__UNKNOWN;
    if (restarted) {
        server->started_at = now;
    } else if (server->is_age_told) {
        int64_t start = rlock__max(server->started_at, start_of(uptime_s, now));

        server->started_at = rlock__min(start, server->seen_at);
    }
}

bool rlock__server_found(struct rlock__server *server, const char *run_id, int64_t uptime_s,
                         int64_t now)
{
    bool is_other = strcmp(server->run_id, run_id) != 0;
    bool restarted = server->run_id[0] != '\0' && is_other;

    if (is_other || run_id[0] == '\0') { /* a run without an id may be another one each time */
        server->seen_at = now;
    }
    (void)snprintf(server->run_id, sizeof(server->run_id), "%s", run_id);
    server->life += restarted;
    server->core->moved_at = restarted ? now : server->core->moved_at;
    note_age(server, uptime_s, restarted, now);
    assert(server->started_at <= server->seen_at);
    return restarted;
}

void rlock__server_found_version(struct rlock__server *server, int64_t version)
{
    if (version > 0) {
        server->version = server->core->version = version;
    }
}

void rlock__server_changed(struct rlock__server *server, int64_t now)
{
    struct rlock__call *call;

    rlock__server_touch(server);
    for (unsigned i = 0; i < server->n_links; i++) {
        rlock__pipeline_break(&server->links[i].pipeline, "another server is in its place", now);
        assert(!server->links[i].pipeline.up && server->links[i].pipeline.sent == NULL);
    }
    DL_FOREACH2(server->core->calls, call, all.next)
    {
        if (call->channel != NULL && call->channel->server == server) {
            rlock__ready(call, RLOCK__WOKEN);
        }
    }
}

static void note_age_missed(struct rlock__server *server)
{
    if (!server->is_age_missed) {
        server->is_age_missed = true;
        rlock__note(server->core, RLOCK_LOG_WARNING, rlock__about("uptime", server->address, 0),
                    "server %s does not tell since when it runs (is INFO permitted?): it counts "
                    "for RedLocks as soon as it restarts",
                    server->address);
    }
}

bool rlock__server_is_young(struct rlock__server *server, int64_t min_uptime_us, int64_t now)
{
    assert(min_uptime_us >= 0);
    assert(RLOCK__IMPLIES(server->is_age_told, server->started_at != RLOCK__UNKNOWN));
    if (min_uptime_us != 0 && !server->is_age_told) {
        note_age_missed(server);
    }
    return min_uptime_us != 0 && now < server->started_at + min_uptime_us;
}

/* ---- Its clock ---- */

void rlock__server_told_time(struct rlock__server *server, int64_t seconds, int64_t us, int64_t t0,
                             int64_t now)
{
    int64_t clock = rlock__min(rlock__max(seconds, 0), MOST_SECONDS) * RLOCK__SECOND +
                    rlock__min(rlock__max(us, 0), RLOCK__SECOND);
    int64_t offset = clock - now, step = offset - server->clock_offset;
    int64_t margin = RLOCK__SECOND / 2 + (now - t0) + server->clock_slack;
    bool known = server->clock_offset != 0;

    assert(now >= t0 && server->clock_slack >= 0);
    server->clock_offset = offset;
    server->clock_slack = now - t0;
    if (!known || (step <= margin && step >= -margin)) {
        return;
    }
    if (step > margin) {
        server->stepped_at = now;
    }
    rlock__note(server->core, RLOCK_LOG_WARNING, rlock__about("clock", server->address, 0),
                "server %s: its clock was set by %lld ms: leases ended earlier or later",
                server->address, (long long)(step / RLOCK__MS));
}
