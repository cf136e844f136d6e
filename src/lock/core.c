/* SPDX-License-Identifier: Apache-2.0 */
/* The events: each changes state, then settles what the change made due. */
#include "lock/core.h"

#include <stdio.h>
#include <stdlib.h>
#include <utlist.h>

#include "lock/internal.h"

static void on_overdue(struct rlock__timer *timer, int64_t now)
{
    struct rlock__core *core =
        (struct rlock__core *)(void *)((char *)timer - offsetof(struct rlock__core, overdue));

    rlock__pipeline_check(&core->server.pipeline, now);
}

static void on_pong(struct rlock__request *request, const struct rlock__reply *reply, int64_t now)
{
    (void)reply;
    (void)now;
    (void)rlock__request_free(request);
}

/* A link without a FIN looks alive: only an answer proves it. Without one it is overdue, and
 * breaks. */
static void on_idle(struct rlock__timer *timer, int64_t now)
{
    struct rlock__core *core =
        (struct rlock__core *)(void *)((char *)timer - offsetof(struct rlock__core, idle));
    struct rlock__pipeline *pipeline = &core->server.pipeline;
    struct rlock__request *ping;

    if (pipeline->up && pipeline->sent == NULL && now >= pipeline->heard_at + RLOCK__IDLE_US) {
        ping = rlock__request_new(on_pong, NULL);
        if (ping != NULL) {
            ping->resend = RLOCK__DROP;
            rlock__cmd_arg(&ping->cmd, rlock__bytes_of("PING"));
        }
        if (ping != NULL && !rlock__pipeline_submit(pipeline, ping, now)) {
            (void)rlock__request_free(ping);
        }
    }
    rlock__timer_set(&core->timers, timer, now + RLOCK__IDLE_US);
}

void rlock__core_init(struct rlock__core *core)
{
    core->overdue.fire = on_overdue;
    core->idle.fire = on_idle;
    core->server.pipeline.op_timeout = core->op_timeout_us;
    if (core->random == 0) {
        core->random = 1; /* xorshift's one fixed point */
    }
    if (core->slice == 0) {
        core->slice = RLOCK__SLICE;
    }
}

void rlock__core_fini(struct rlock__core *core)
{
    struct rlock__loss *loss, *loss_after;
    struct rlock__note *note, *note_after;

    rlock__orphans_fini(core);
    rlock__holds_fini(core);
    rlock__places_fini(core);
    rlock__pipeline_fini(&core->server.pipeline);
    rlock__buf_fini(&core->server.sub_out);
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

/* Does a slice of what holds and orphans need, unless the rest after the last one lasts. */
static void work(struct rlock__core *core, int64_t now)
{
    size_t left = core->slice;

    if (now < core->resume_at) {
        return;
    }
    left -= rlock__holds_sweep(core, left, now);
    left -= rlock__timers_fire(&core->crowd, now, left);
    core->resume_at = left > 0 ? 0 : core->closed ? now : now + RLOCK__REST_US;
}

/* The end of each event. */
static void settle(struct rlock__core *core, int64_t now)
{
    struct rlock__pipeline *pipeline = &core->server.pipeline;
    int64_t overdue;

    rlock__orphans_flush(core, now);
    rlock__renew_flush(core, now);
    if (pipeline->close) { /* that a reply is overdue is for a tick to say, when all was read */
        rlock__pipeline_check(pipeline, now);
    }
    overdue = rlock__pipeline_overdue_at(pipeline);
    if (!core->overdue.set || core->overdue.at != overdue) {
        rlock__timer_set(&core->timers, &core->overdue, overdue);
    }
}

/* Why the link is down: said where it is news. That a link which was up has broken is not worth a
 * warning as long as another one can be made. */
static void note_link_down(struct rlock__core *core, bool was_up, const char *text)
{
    struct rlock__server *server = &core->server;

    if (was_up) {
        rlock__note(core, RLOCK_LOG_INFO, "server %s", text);
    } else if (!server->link_warned || strcmp(server->link_error, text) != 0) {
        server->link_warned = true;
        rlock__note(core, RLOCK_LOG_WARNING, "server %s", text);
    }
}

void rlock__core_link_up(struct rlock__core *core, uint64_t gen, uint64_t fenced_below, int64_t now)
{
    rlock__note(core, core->server.link_warned ? RLOCK_LOG_WARNING : RLOCK_LOG_INFO,
                "server %s: connected", core->address);
    core->server.link_warned = false;
    core->server.link_code = 0;
    core->server.link_final = false;
    rlock__pipeline_up(&core->server.pipeline, gen, fenced_below, now);
    rlock__timer_set(&core->timers, &core->idle, now + RLOCK__IDLE_US);
    settle(core, now);
}

/*
 * When the server started, no earlier than it did. It counts its uptime by the wall clock, and
 * takes the difference of two times whose seconds are cut off: nearly a second too much, and any
 * number at all once that clock was set.
 */
static int64_t start_of(int64_t uptime_s, int64_t now)
{
    return uptime_s < 0 ? now : now - rlock__max(uptime_s - 1, 0) * RLOCK__SECOND;
}

/*
 * Who saw another run of the server before need not trust its clock: this one has just started. Of
 * the same run the latest start counts that it ever told, since its clock may have been set
 * forward; but it was running when it was first seen.
 */
void rlock__core_server(struct rlock__core *core, int64_t uptime_s, bool restarted, int64_t now)
{
    struct rlock__server *server = &core->server;

    if (uptime_s == RLOCK__UNKNOWN) {
        server->is_age_known = false;
    } else if (restarted || !server->is_age_known) {
        server->is_age_known = true;
        server->seen_at = now;
        server->started_at = restarted ? now : start_of(uptime_s, now);
    } else {
        int64_t start = rlock__max(server->started_at, start_of(uptime_s, now));

        server->started_at = rlock__min(start, server->seen_at);
    }
    if (restarted) {
        core->server.life++;
        core->sweep = core->holds;
        work(core, now);
    }
    settle(core, now);
}

bool rlock__core_is_down(const struct rlock__core *core)
{
    return !core->server.pipeline.up && core->server.link_code != 0;
}

/* Nobody waits for a link that will not come, whether or not a copy may have run; some whose copies
 * certainly did not run wait for none. */
static void fail_waiting(struct rlock__core *core, int64_t now)
{
    struct rlock__call *call, *after;

    DL_FOREACH_SAFE2(core->calls, call, after, all_next)
    {
        const struct rlock__request *request = call->request;

        if (call->step == RLOCK__ASKING && call->kind != RLOCK__RELEASE && request != NULL &&
            !request->sent && (core->server.link_final || (call->prompt && request->copies == 0))) {
            rlock__call_give_up(call, core->server.link_code, now);
        }
    }
}

void rlock__core_link_down(struct rlock__core *core, uint64_t gen, int code, bool final,
                           const char *text, int64_t now)
{
    if (core->server.pipeline.up && gen < core->server.pipeline.gen) {
        return;
    }
    note_link_down(core, gen != 0, text);
    rlock__pipeline_down(&core->server.pipeline, gen, now);
    core->server.link_code = code;
    core->server.link_final = final;
    (void)snprintf(core->server.link_error, sizeof(core->server.link_error), "%s", text);
    fail_waiting(core, now);
    settle(core, now);
}

void rlock__core_reply(struct rlock__core *core, uint64_t gen, const struct rlock__reply *reply,
                       int64_t now)
{
    rlock__pipeline_reply(&core->server.pipeline, gen, reply, now);
    settle(core, now);
}

void rlock__core_garbled(struct rlock__core *core, uint64_t gen, int64_t now)
{
    rlock__pipeline_garbled(&core->server.pipeline, gen, now);
    settle(core, now);
}

void rlock__core_sub_up(struct rlock__core *core, int64_t now)
{
    rlock__channels_up(core, now);
    settle(core, now);
}

void rlock__core_sub_down(struct rlock__core *core, int64_t now)
{
    rlock__channels_down(core, now);
    settle(core, now);
}

void rlock__core_sub_reply(struct rlock__core *core, const struct rlock__reply *reply, int64_t now)
{
    rlock__channels_reply(core, reply, now);
    settle(core, now);
}

void rlock__core_tick(struct rlock__core *core, int64_t now)
{
    (void)rlock__timers_fire(&core->timers, now, SIZE_MAX);
    work(core, now);
    settle(core, now);
}

int64_t rlock__core_next(const struct rlock__core *core)
{
    int64_t crowd = core->sweep != NULL || rlock__renew_is_ready(core)
                        ? core->resume_at
                        : rlock__max(rlock__timers_next(&core->crowd), core->resume_at);

    return rlock__min(rlock__timers_next(&core->timers), crowd);
}

void rlock__core_begin(struct rlock__core *core, struct rlock__call *call, int64_t now)
{
    rlock__call_begin(core, call, now);
    if (core->server.link_final && !core->server.pipeline.up) {
        fail_waiting(core, now);
    }
    settle(core, now);
}

void rlock__core_give_up(struct rlock__core *core, struct rlock__call *call, int code, int64_t now)
{
    if (call->step != RLOCK__COMPLETE) {
        rlock__call_give_up(call, code, now);
    }
    settle(core, now);
}

static bool is_cancelled_by(const struct rlock__call *call, const void *cancel)
{
    return call->cancel == cancel && call->kind == RLOCK__ACQUIRE &&
           call->step != RLOCK__GIVING_UP && call->step != RLOCK__COMPLETE;
}

/* From the last call on, so that none becomes the head of its line, and asks, to be cancelled next.
 */
void rlock__core_cancel(struct rlock__core *core, const void *cancel, int64_t now)
{
    struct rlock__call *call = core->calls != NULL ? core->calls->all_prev : NULL;

    while (call != NULL) {
        struct rlock__call *before = call == core->calls ? NULL : call->all_prev;

        if (is_cancelled_by(call, cancel)) {
            rlock__acquire_give_up(call, RLOCK_ECANCELED, now);
        }
        if (before != NULL && before->step == RLOCK__COMPLETE) { /* by that: start anew */
            before = core->calls != NULL ? core->calls->all_prev : NULL;
        }
        call = before;
    }
    settle(core, now);
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
    settle(core, now);
}

void rlock__core_forced(struct rlock__core *core, uint64_t number, int64_t now)
{
    struct rlock__hold *hold = rlock__hold_by_number(core, number);

    if (hold != NULL) {
        rlock__hold_lose(hold, RLOCK_LOST_FORCED, now);
    }
    settle(core, now);
}

void rlock__core_close(struct rlock__core *core, int64_t now)
{
    core->closed = true;
    while (core->calls != NULL) {
        rlock__call_give_up(core->calls, RLOCK_ECLOSED, now);
    }
    core->sweep = core->holds;
    core->resume_at = 0;
    work(core, now);
    settle(core, now);
}

void rlock__core_abandon(struct rlock__core *core)
{
    core->closed = true;
    while (core->calls != NULL) {
        rlock__call_give_up(core->calls, RLOCK_ECLOSED, 0);
    }
    core->done = NULL;
}

bool rlock__core_is_settled(const struct rlock__core *core)
{
    return core->orphans == NULL && core->holds == NULL;
}
