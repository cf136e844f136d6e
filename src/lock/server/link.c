/* SPDX-License-Identifier: Apache-2.0 */
#include "lock/server/link.h"

#include <assert.h>
#include <stdio.h>

#include "lock/common.h"
#include "lock/server/classify.h"
#include "lock/server/listing.h"
#include "lock/server/route.h"

/* ---- When a connection is made ---- */

int64_t rlock__tries_due(const struct rlock__tries *tries, const struct rlock__core *core)
{
    assert(core->n_connecting <= RLOCK__CONNECTING_MAX);
    assert(RLOCK__IMPLIES(tries->connecting, core->n_connecting > 0));
    return tries->connecting || core->n_connecting >= RLOCK__CONNECTING_MAX ? RLOCK__NEVER
                                                                            : tries->retry_at;
}

void rlock__tries_begin(struct rlock__tries *tries, struct rlock__core *core)
{
    assert(!tries->connecting); /* such a connection is not due */
    core->n_connecting += !tries->connecting;
    tries->connecting = true;
    assert(core->n_connecting <= RLOCK__CONNECTING_MAX);
}

static void tries_end(struct rlock__tries *tries, struct rlock__core *core)
{
    assert(RLOCK__IMPLIES(tries->connecting, core->n_connecting > 0));
    core->n_connecting -= tries->connecting;
    tries->connecting = false;
}

void rlock__tries_up(struct rlock__tries *tries, struct rlock__core *core, int64_t now)
{
    core->stats.connects++;
    core->stats.reconnects += tries->broke_at != 0;
    tries_end(tries, core);
    tries->received = false;
    tries->up_at = now;
    tries->broke_at = 0;
}

void rlock__tries_down(struct rlock__tries *tries, struct rlock__core *core, bool was_up,
                       int64_t now)
{
    int64_t pause = 0;

    if (was_up && (tries->received || now >= tries->up_at + RLOCK__SECOND)) {
        tries->failures = 0;
    } else {
        pause = rlock__backoff(core, tries->failures++);
    }
    assert(pause >= 0 && pause <= RLOCK__BACKOFF_US + RLOCK__BACKOFF_MAX_US);
    assert(RLOCK__IMPLIES(was_up, !tries->connecting));
    core->stats.disconnects += was_up;
    core->stats.failed_connects += !was_up;
    tries_end(tries, core);
    tries->broke_at = was_up ? now : tries->broke_at;
    tries->retry_at = now + pause;
}

int64_t rlock__link_due(const struct rlock__link *link)
{
    assert(RLOCK__IMPLIES(link->pipeline.up, !link->tries.connecting));
    return link->pipeline.up || link->server->is_let_go
               ? RLOCK__NEVER
               : rlock__tries_due(&link->tries, link->server->core);
}

size_t rlock__link_begin(struct rlock__link *link, uint64_t ret_unfenced[RLOCK__UNFENCED_MAX])
{
    assert(!link->pipeline.up && !link->server->is_let_go && !link->is_let_go);
    assert(link->n_unfenced <= RLOCK__UNFENCED_MAX);
    rlock__tries_begin(&link->tries, link->server->core);
    memcpy(ret_unfenced, link->unfenced, sizeof(link->unfenced));
    return link->n_unfenced;
}

/* ---- Silence on the link ---- */

static void on_overdue(struct rlock__timer *timer, int64_t now)
{
    struct rlock__link *link = RLOCK__OF(struct rlock__link, overdue, timer);

    rlock__server_touch(link->server);
    rlock__pipeline_check(&link->pipeline, now);
}

static void on_pong(struct rlock__request *request, const struct rlock__reply *reply, int64_t now)
{
    (void)reply;
    (void)now;
    assert(request->subject == NULL && request->copies <= 1);
    (void)rlock__request_free(request);
}

/* How long a link may be silent before it gets a PING. In the time that a failover takes at least,
 * several PINGs are due. */
static int64_t idle_of(const struct rlock__pipeline *pipeline)
{
    return pipeline->failover_us != 0 ? rlock__min(pipeline->failover_us / 4, RLOCK__IDLE_US)
                                      : RLOCK__IDLE_US;
}

/* A broken link that got no FIN looks alive: only an answer proves that it is. Without an answer
 * the PING is overdue, and the link breaks. */
static void on_idle(struct rlock__timer *timer, int64_t now)
{
    struct rlock__link *link = RLOCK__OF(struct rlock__link, idle, timer);
    struct rlock__pipeline *pipeline = &link->pipeline;
    struct rlock__request *ping;

    int64_t idle_us = idle_of(pipeline);

    assert(idle_us > 0);      /* otherwise it would fire for ever */
    assert(!link->is_let_go); /* need.c unsets the timer then */
    rlock__server_touch(link->server);
    if (pipeline->up && pipeline->sent == NULL && now >= pipeline->heard_at + idle_us) {
        ping = rlock__request_new(&link->server->core->requests, on_pong, NULL);
        if (ping != NULL) {
            ping->resend = RLOCK__DROP;
            rlock__cmd_arg(&ping->cmd, rlock__bytes_of("PING"));
        }
        if (ping != NULL && !rlock__pipeline_submit(pipeline, ping, now)) {
            (void)rlock__request_free(ping);
        }
    }
    rlock__timer_set(&link->server->core->timers, timer, now + idle_us);
}

void rlock__link_settle(struct rlock__link *link, int64_t now)
{
    int64_t overdue;

    bool drained = link->pipeline.drains && link->pipeline.sent == NULL;

    if (link->pipeline.close || drained) {
        /* only a tick finds that a reply is overdue, after everything was read */
        rlock__pipeline_check(&link->pipeline, now);
    }
    assert(RLOCK__IMPLIES(link->pipeline.close, !link->pipeline.up));
    assert(
        RLOCK__IMPLIES(link->pipeline.drains, link->pipeline.sent != NULL || !link->pipeline.up));
    overdue = rlock__pipeline_overdue_at(&link->pipeline);
    if (!link->overdue.set || link->overdue.at != overdue) {
        rlock__timer_set(&link->server->core->timers, &link->overdue, overdue);
    }
    assert(link->overdue.set == (link->pipeline.sent != NULL));
}

/* ---- Up and down ---- */

void rlock__link_init(struct rlock__link *link, struct rlock__server *server)
{
    assert(server->core->opts.op_timeout_us > 0 && server->core->opts.failover_us >= 0);
    assert(!link->pipeline.up && link->pipeline.gen == 0 && link->acks == NULL);
    link->server = server;
    link->overdue.fire = on_overdue;
    link->idle.fire = on_idle;
    link->pipeline.op_timeout = server->core->opts.op_timeout_us;
    link->pipeline.failover_us = server->core->opts.failover_us;
}

void rlock__link_fini(struct rlock__link *link)
{
    struct rlock__timers *timers = &link->server->core->timers;

    rlock__pipeline_fini(&link->pipeline);
    assert(link->acks == NULL && link->wait == NULL); /* requests that were answered have left */
    assert(link->n_granted == 0);
    assert(link->unsent == NULL && link->releasing == 0);
    rlock__timer_unset(timers, &link->overdue);
    rlock__timer_unset(timers, &link->idle);
}

/* Logs why the link is down, if that is news. A link that was up and broke is not worth a warning,
 * as long as the next connection can be made. */
static void note_down(struct rlock__link *link, bool was_up, int code, const char *text)
{
    const struct rlock__about about = rlock__about("connection", link->server->address, code);
    struct rlock__core *core = link->server->core;

    if (was_up) {
        rlock__note(core, RLOCK_LOG_INFO, about, "server %s", text);
    } else if (!link->warned || strcmp(link->error, text) != 0) {
        link->warned = true;
        rlock__note(core, RLOCK_LOG_WARNING, about, "server %s", text);
    }
}

static void note_up(const struct rlock__link *link, int64_t now)
{
    int level = link->warned ? RLOCK_LOG_WARNING : RLOCK_LOG_INFO;
    const char *address = link->server->address;

    if (link->tries.broke_at == 0) {
        rlock__note(link->server->core, level, rlock__about("connection", address, 0),
                    "server %s: connected", address);
    } else {
        rlock__note(link->server->core, level, rlock__about("connection", address, 0),
                    "server %s: reconnected after %lld ms", address,
                    (long long)((now - link->tries.broke_at) / RLOCK__MS));
    }
}

void rlock__link_up(struct rlock__link *link, uint64_t gen, uint64_t client_id, bool fenced,
                    int64_t now)
{
    struct rlock__core *core = link->server->core;

    assert(gen > link->pipeline.gen && gen <= core->last_gen);
    assert(!link->is_let_go);
    assert(link->pipeline.fence.below <= gen);
    note_up(link, now);
    link->warned = link->final = link->replaced = false;
    link->code = 0;
    link->client_id = client_id;
    link->n_unfenced = fenced && !link->pipeline.fence.is_final ? 0 : link->n_unfenced;
    rlock__tries_up(&link->tries, core, now);
    rlock__pipeline_up(&link->pipeline, gen, fenced, now);
    link->pipeline.is_nameless = client_id == 0;
    rlock__timer_set(&core->timers, &link->idle, now + idle_of(&link->pipeline));
    assert(link->idle.set);
    rlock__server_need(link->server, now);
    rlock__listing_begin(link, now);
}

/* The connection that broke may still run something on the server. */
static void remember_unfenced(struct rlock__link *link)
{
    assert(link->n_unfenced <= RLOCK__UNFENCED_MAX);
    if (link->client_id != 0 && link->n_unfenced == RLOCK__UNFENCED_MAX) {
        link->pipeline.fence.is_final = true;
    } else if (link->client_id != 0) {
        link->unfenced[link->n_unfenced++] = link->client_id;
    }
    link->client_id = 0;
}

bool rlock__link_down(struct rlock__link *link, uint64_t gen, int code, bool final,
                      const char *text, int64_t now)
{
    struct rlock__core *core = link->server->core;

    assert(gen <= link->pipeline.gen);
    assert(code != 0); /* the code says that the link is down */
    if (link->pipeline.up && gen < link->pipeline.gen) {
        return false;
    }
    if (link->is_let_go) { /* all its requests were answered */
        assert(!link->pipeline.up && link->pipeline.sent == NULL && link->code == 0);
        link->is_let_go = false;
        link->client_id = 0;
        tries_end(&link->tries, core);
        link->tries.retry_at = now;
        link->pipeline.why = "not connected yet";
        return false;
    }
    note_down(link, gen != 0, code, text);
    if (gen != 0) {
        remember_unfenced(link);
    }
    rlock__tries_down(&link->tries, core, gen != 0, now);
    if (gen != 0 && link->pipeline.lied) { /* it may do so each time */
        link->tries.retry_at = rlock__max(link->tries.retry_at, now + rlock__backoff(core, 0));
    }
    rlock__pipeline_down(&link->pipeline, gen, now);
    assert(!link->pipeline.up && !link->tries.connecting);
    link->code = code;
    link->final = final;
    (void)snprintf(link->error, sizeof(link->error), "%s", text);
    return true;
}

void rlock__link_withhold(struct rlock__link *link, const char *why, int64_t now)
{
    rlock__server_touch(link->server);
    rlock__pipeline_break(&link->pipeline, "another server may be the right one", now);
    assert(!link->pipeline.up && link->pipeline.sent == NULL);
    link->warned = true; /* the caller has said why */
    (void)snprintf(link->error, sizeof(link->error), "%s", why);
}

void rlock__link_received(struct rlock__link *link, uint64_t gen, const struct rlock__reply *reply,
                          int64_t now)
{
    struct rlock__pipeline *pipeline = &link->pipeline;
    struct rlock__core *core = link->server->core;
    bool demoted = rlock__error_is(reply, RLOCK__DEMOTED);

    assert(gen != 0 && gen <= pipeline->gen);
    if (demoted && pipeline->up && gen == pipeline->gen && !pipeline->drains) {
        rlock__pipeline_drain(pipeline, "READONLY: the server is a replica");
        if (core->driver.on_demoted != NULL) {
            core->driver.on_demoted(core);
        }
    }
    rlock__pipeline_reply(pipeline, gen, reply, now);
    link->tries.received = !demoted && (link->tries.received || !pipeline->lied);
}

bool rlock__link_is_down(const struct rlock__link *link)
{
    return !link->pipeline.up && link->code != 0;
}
