/* SPDX-License-Identifier: Apache-2.0 */
/* The events: each changes the state, and then does what the change made due. */
#include "lock/core.h"

#include <stdio.h>
#include <stdlib.h>
#include <utlist.h>

#include "lock/call/calls.h"
#include "lock/common.h"
#include "lock/core/finish.h"
#include "lock/hold/hold.h"
#include "lock/hold/queue.h"
#include "lock/hold/recent.h"
#include "lock/hold/recovery.h"
#include "lock/hold/renew.h"
#include "lock/server/channel.h"
#include "lock/server/listener.h"
#include "lock/server/route.h"
#include "lock/server/stock.h"

static void on_grant_due(struct rlock__timer *timer, int64_t now)
{
    struct rlock__grant *grant = RLOCK__OF(struct rlock__grant, timer, timer);

    if (grant->releasing) {
        rlock__release_due(grant->hold, now);
    } else {
        rlock__renew_due(grant, now);
    }
}

void rlock__core_init(struct rlock__core *core)
{
    core->on_grant_due = on_grant_due;
    if (core->random == 0) {
        core->random = 1; /* xorshift's one fixed point */
    }
    if (core->opts.slice == 0) {
        core->opts.slice = RLOCK__SLICE;
    }
}

void rlock__core_add_server(struct rlock__core *core, struct rlock__server *server,
                            unsigned n_routed, unsigned n_acks)
{
    rlock__server_init(server, core, n_routed, n_acks);
    DL_APPEND(core->servers, server);
}

void rlock__core_trim(struct rlock__core *core)
{
    rlock__holds_trim(core);
    rlock__queues_trim(core);
    rlock__tickets_trim(core);
    rlock__pool_fini(&core->requests);
}

void rlock__core_fini(struct rlock__core *core)
{
    struct rlock__server *server, *server_after;
    struct rlock__loss *loss, *loss_after;
    struct rlock__note *note, *note_after;

    rlock__recent_fini(core);
    rlock__recovery_fini(core);
    rlock__holds_fini(core);
    rlock__queues_fini(core);
    DL_FOREACH_SAFE(core->servers, server, server_after) {
        rlock__channels_fini(server);
        rlock__server_fini(server);
    }
    rlock__core_trim(core);
    rlock__buf_fini(&core->scratch);
    DL_FOREACH_SAFE(core->lost, loss, loss_after) {
        (void)rlock__loss_free(loss);
    }
    DL_FOREACH_SAFE(core->notes, note, note_after) {
        free(note);
    }
    core->lost = NULL;
    core->notes = NULL;
}

/* ---- What several events do ---- */

static void touch_all(struct rlock__core *core)
{
    struct rlock__server *server;

    DL_FOREACH(core->servers, server) {
        rlock__server_touch(server);
    }
}

/* Another server may have a key now. Sends it the recent releases again, and verifies the holds
 * there. */
static void look_again(struct rlock__core *core, int64_t now)
{
    rlock__recent_repeat(core, now);
    core->rows.sweep = core->rows.holds;
    rlock__work(core, now);
}

/* ---- Events of one server ---- */

static void finish(struct rlock__server *server, int64_t now)
{
    rlock__server_touch(server);
    rlock__finish_event(server->core, now);
}

void rlock__core_found(struct rlock__server *server, const char *run_id, int64_t uptime_s,
                       int64_t now)
{
    struct rlock__core *core = server->core;

    if (rlock__server_found(server, run_id, uptime_s, now)) {
        rlock__server_changed(server, now);
        look_again(core, now);
    }
    finish(server, now);
}

uint64_t rlock__core_link_up(struct rlock__link *link, uint64_t client_id, bool fenced, int64_t now)
{
    struct rlock__core *core = link->server->core;

    rlock__link_up(link, ++core->last_gen, client_id, fenced, now);
    rlock__needs_begin(core, now);
    finish(link->server, now);
    return core->last_gen;
}

void rlock__core_link_down(struct rlock__link *link, uint64_t gen, int code, bool final,
                           const char *text, int64_t now)
{
    if (rlock__link_down(link, gen, code, final, text, now)) {
        rlock__calls_fail_waiting(link, now);
        finish(link->server, now);
    }
}

void rlock__core_reply(struct rlock__link *link, uint64_t gen, const struct rlock__reply *reply,
                       int64_t now)
{
    rlock__link_received(link, gen, reply, now);
    finish(link->server, now);
}

void rlock__core_garbled(struct rlock__link *link, uint64_t gen, int64_t now)
{
    rlock__pipeline_garbled(&link->pipeline, gen, now);
    finish(link->server, now);
}

void rlock__core_sub_up(struct rlock__server *server, int64_t now)
{
    rlock__subscriber_up(server, now);
    finish(server, now);
}

void rlock__core_sub_down(struct rlock__server *server, int64_t now)
{
    rlock__subscriber_down(server, now);
    finish(server, now);
}

void rlock__core_sub_reply(struct rlock__server *server, const struct rlock__reply *reply,
                           int64_t now)
{
    rlock__subscriber_received(server, reply, now);
    finish(server, now);
}

void rlock__core_replaced(struct rlock__server *server, int64_t now)
{
    for (unsigned i = 0; i < server->n_links; i++) {
        server->links[i].replaced = true;
        rlock__pipeline_replaced(&server->links[i].pipeline, now);
    }
    finish(server, now);
}

/* ---- Events of all servers ---- */

void rlock__core_rerouted(struct rlock__core *core, int64_t now)
{
    rlock__reroute(core, now);
    look_again(core, now);
    touch_all(core);
    rlock__finish_event(core, now);
}

void rlock__core_tick(struct rlock__core *core, int64_t now)
{
    (void)rlock__timers_fire(&core->timers, now, SIZE_MAX);
    rlock__work(core, now);
    rlock__finish_event(core, now);
}

int64_t rlock__core_next(const struct rlock__core *core)
{
    int64_t due = rlock__min(rlock__timers_next(&core->bulk), rlock__renew_next(core));
    int64_t bulk = core->rows.sweep != NULL ? 0 : due;

    return rlock__min(rlock__timers_next(&core->timers), rlock__max(bulk, core->resume_at));
}

void rlock__core_begin(struct rlock__core *core, struct rlock__call *call, int64_t now)
{
    call->core = core;
    call->link = rlock__route(call->spec);
    call->step = RLOCK__NEW;
    DL_APPEND2(core->calls, call, all.prev, all.next);
    if (core->closed) {
        rlock__call_complete(call, RLOCK_ECLOSED, "the client is closed");
    } else {
        rlock__call_begin(call, now);
    }
    if (call->link->final && !call->link->pipeline.up) {
        rlock__calls_fail_waiting(call->link, now);
    }
    rlock__finish_event(core, now);
}

void rlock__core_listen(struct rlock__core *core, struct rlock__listener *listener, int64_t now)
{
    rlock__listener_begin(core, listener);
    rlock__finish_event(core, now);
}

void rlock__core_ignore(struct rlock__core *core, struct rlock__listener *listener, int64_t now)
{
    rlock__listener_end(listener);
    rlock__finish_event(core, now);
}

void rlock__core_give_up(struct rlock__core *core, struct rlock__call *call, int code, int64_t now)
{
    if (call->step != RLOCK__COMPLETE) {
        rlock__call_give_up(call, code, now);
    }
    rlock__finish_event(core, now);
}

void rlock__core_cancel_call(struct rlock__core *core, struct rlock__call *call, int64_t now)
{
    rlock__call_cancel(call, now);
    rlock__finish_event(core, now);
}

/* Whether a call waits with this signal; or, without one, for this owner. */
static bool is_meant(const struct rlock__call *call, const void *cancel, uint64_t owner)
{
    if (!rlock__listens(call)) {
        return false;
    }
    return cancel != NULL ? call->cancel == cancel
                          : call->owner.given && call->owner.id == owner && !call->member;
}

/* Begins with the last call. Otherwise a call would become the head of its wait queue, and ask the
 * server, only to be canceled next. */
static void cancel_calls(struct rlock__core *core, const void *cancel, uint64_t owner, int64_t now)
{
    struct rlock__call *call = core->calls != NULL ? core->calls->all.prev : NULL;

    while (call != NULL) {
        struct rlock__call *before = call == core->calls ? NULL : call->all.prev;

        if (is_meant(call, cancel, owner)) {
            rlock__call_cancel(call, now);
        }
        if (before != NULL &&
            before->step ==
                RLOCK__COMPLETE) { /* the cancellation ended that one too: start again */
            before = core->calls != NULL ? core->calls->all.prev : NULL;
        }
        call = before;
    }
}

void rlock__core_cancel(struct rlock__core *core, const void *cancel, int64_t now)
{
    cancel_calls(core, cancel, 0, now);
    rlock__finish_event(core, now);
}

void rlock__core_owner_end(struct rlock__core *core, uint64_t owner, int64_t now)
{
    struct rlock__hold *hold, *after;

    cancel_calls(core, NULL, owner, now);
    DL_FOREACH_SAFE(core->rows.holds, hold, after) {
        if (hold->given && hold->owner_id == owner && hold->count > hold->members &&
            !hold->is_hidden) { /* that one ends by itself */
            hold->is_ended = true;
            rlock__hold_lose(hold, RLOCK_LOST_OWNER_ENDED, now);
            if (!hold->busy) {
                rlock__hold_free(hold);
            }
        }
    }
    rlock__finish_event(core, now);
}

void rlock__core_thread_exit(struct rlock__core *core, const struct rlock__spec *spec,
                             uint64_t thread, int64_t now)
{
    struct rlock__hold *hold = rlock__hold_find(core, spec, (struct rlock__owner){.id = thread});

    if (hold != NULL) {
        rlock__hold_lose(hold, RLOCK_LOST_THREAD_EXITED, now);
        if (!hold->busy) {
            rlock__hold_free(hold);
        }
    }
    rlock__finish_event(core, now);
}

void rlock__core_forced(struct rlock__core *core, uint64_t number, int64_t now)
{
    struct rlock__hold *hold = rlock__hold_by_number(core, number);

    if (hold != NULL) {
        rlock__hold_lose(hold, RLOCK_LOST_FORCED, now);
    }
    rlock__finish_event(core, now);
}

void rlock__core_close(struct rlock__core *core, int64_t now)
{
    core->closed = true;
    rlock__stocks_close(core);
    rlock__channels_close(core);
    while (core->calls != NULL) {
        rlock__call_give_up(core->calls, RLOCK_ECLOSED, now);
    }
    rlock__listeners_close(core);
    rlock__queues_close(core);
    core->rows.sweep = core->rows.holds;
    core->resume_at = 0;
    rlock__work(core, now);
    touch_all(core);
    rlock__finish_event(core, now);
    rlock__log_left_out(core);
}

void rlock__core_abandon(struct rlock__core *core)
{
    core->closed = true;
    while (core->calls != NULL) {
        rlock__call_give_up(core->calls, RLOCK_ECLOSED, 0);
    }
    core->done = NULL;
    rlock__listeners_close(core);
    core->notified = NULL;
}

/* Logs the numbers that could not be released. */
static void note_unreleased(struct rlock__core *core, int64_t now)
{
    const struct rlock__ticket *ticket;
    int64_t free_by = now;
    size_t n = 0;
    char name[96];

    DL_FOREACH(core->recovery.tickets, ticket) {
        free_by = rlock__max(free_by, ticket->free_by);
        n++;
    }
    if (n == 1) {
        rlock__note(core, RLOCK_LOG_WARNING,
                    rlock__about("release", core->opts.address, RLOCK_EINDOUBT),
                    "lock %s: not released, free in %lld ms (server %s)",
                    rlock__spec_text(core->recovery.tickets->spec, name),
                    (long long)rlock__ms_up(free_by - now), core->opts.address);
    } else if (n > 1) {
        rlock__note(core, RLOCK_LOG_WARNING,
                    rlock__about("release", core->opts.address, RLOCK_EINDOUBT),
                    "%zu locks: not released, the last is free in %lld ms (server %s)", n,
                    (long long)rlock__ms_up(free_by - now), core->opts.address);
    }
}

void rlock__core_note_rest(struct rlock__core *core, int64_t now)
{
    (void)rlock__holds_sweep(core, SIZE_MAX, now);
    note_unreleased(core, now);
}

bool rlock__core_is_settled(const struct rlock__core *core)
{
    return core->recovery.tickets == NULL && core->rows.holds == NULL;
}
