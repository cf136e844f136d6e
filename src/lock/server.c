/* SPDX-License-Identifier: Apache-2.0 */
#include "lock/server.h"

#include <stdio.h>

#include "lock/internal.h"

/* ---- Silence on the link ---- */

static void on_overdue(struct rlock__timer *timer, int64_t now)
{
    struct rlock__server *server =
        (struct rlock__server *)(void *)((char *)timer - offsetof(struct rlock__server, overdue));

    rlock__pipeline_check(&server->pipeline, now);
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
    struct rlock__server *server =
        (struct rlock__server *)(void *)((char *)timer - offsetof(struct rlock__server, idle));
    struct rlock__pipeline *pipeline = &server->pipeline;
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
    rlock__timer_set(&server->core->timers, timer, now + RLOCK__IDLE_US);
}

void rlock__server_settle(struct rlock__server *server, int64_t now)
{
    struct rlock__pipeline *pipeline = &server->pipeline;
    int64_t overdue;

    if (pipeline->close) { /* that a reply is overdue is for a tick to say, when all was read */
        rlock__pipeline_check(pipeline, now);
    }
    overdue = rlock__pipeline_overdue_at(pipeline);
    if (!server->overdue.set || server->overdue.at != overdue) {
        rlock__timer_set(&server->core->timers, &server->overdue, overdue);
    }
}

/* ---- Up and down ---- */

void rlock__server_init(struct rlock__server *server, struct rlock__core *core)
{
    server->core = core;
    server->overdue.fire = on_overdue;
    server->idle.fire = on_idle;
    server->pipeline.op_timeout = core->op_timeout_us;
}

void rlock__server_fini(struct rlock__server *server)
{
    rlock__pipeline_fini(&server->pipeline);
    rlock__buf_fini(&server->sub_out);
}

/* Why the link is down: said where it is news. That a link which was up has broken is not worth a
 * warning as long as another one can be made. */
static void note_down(struct rlock__server *server, bool was_up, const char *text)
{
    if (was_up) {
        rlock__note(server->core, RLOCK_LOG_INFO, "server %s", text);
    } else if (!server->link_warned || strcmp(server->link_error, text) != 0) {
        server->link_warned = true;
        rlock__note(server->core, RLOCK_LOG_WARNING, "server %s", text);
    }
}

void rlock__server_up(struct rlock__server *server, uint64_t gen, uint64_t fenced_below,
                      int64_t now)
{
    rlock__note(server->core, server->link_warned ? RLOCK_LOG_WARNING : RLOCK_LOG_INFO,
                "server %s: connected", server->address);
    server->link_warned = false;
    server->link_code = 0;
    server->link_final = false;
    rlock__pipeline_up(&server->pipeline, gen, fenced_below, now);
    rlock__timer_set(&server->core->timers, &server->idle, now + RLOCK__IDLE_US);
}

bool rlock__server_down(struct rlock__server *server, uint64_t gen, int code, bool final,
                        const char *text, int64_t now)
{
    if (server->pipeline.up && gen < server->pipeline.gen) {
        return false;
    }
    note_down(server, gen != 0, text);
    rlock__pipeline_down(&server->pipeline, gen, now);
    server->link_code = code;
    server->link_final = final;
    (void)snprintf(server->link_error, sizeof(server->link_error), "%s", text);
    return true;
}

bool rlock__server_is_down(const struct rlock__server *server)
{
    return !server->pipeline.up && server->link_code != 0;
}

/* ---- Its age ---- */

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
void rlock__server_note_age(struct rlock__server *server, int64_t uptime_s, bool restarted,
                            int64_t now)
{
    server->life += restarted;
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
}
