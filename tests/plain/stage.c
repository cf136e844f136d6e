/* SPDX-License-Identifier: Apache-2.0 */
#include "plain/stage.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <utlist.h>

#include <cmocka.h>

#include "sim/reply.h"

/* What the server said, on its way. */
struct stage_frame {
    struct stage_frame *next;
    uint64_t conn;
    bool is_push;
    size_t len;
    char bytes[];
};

static void on_frame(void *payload, uint64_t conn, const char *bytes, size_t len, bool is_push)
{
    struct stage *stage = payload;
    struct stage_frame *frame = malloc(sizeof(*frame) + len);

    *frame = (struct stage_frame){.conn = conn, .is_push = is_push, .len = len};
    memcpy(frame->bytes, bytes, len);
    LL_APPEND(stage->frames, frame);
}

static void unref(struct rlock__core *core)
{
    (void)core; /* the stage owns the client */
}

/* ---- Delivery ---- */

static void say(struct stage *stage, uint64_t conn, struct rlock__buf *out)
{
    for (size_t at = 0; at < out->len;) {
        int64_t n = sim_resp_frame_len(out->data + at, out->len - at);

        assert_true(n > 0);
        assert_true(sim_server_command(stage->server, conn, out->data + at, (size_t)n));
        at += (size_t)n;
    }
    rlock__buf_clear(out);
}

static void read_frame(struct stage *stage, struct stage_client *client,
                       const struct stage_frame *frame)
{
    struct sim_resp *tree = sim_resp_read(frame->bytes, frame->len);
    struct rlock__value values[16];
    struct rlock__reply reply;

    assert_true(tree->type != SIM_RESP_ARRAY ||
                tree->n_items <= sizeof(values) / sizeof(values[0]));
    reply = sim_reply_of(tree, values);
    if (frame->conn == client->link) {
        rlock__core_reply(alone_link(&client->core), alone_link(&client->core)->pipeline.gen,
                          &reply, stage->now);
    } else {
        rlock__core_sub_reply(client->core.servers, &reply, stage->now);
    }
    (void)sim_resp_free(tree);
}

static void deliver(struct stage *stage, struct stage_frame *frame)
{
    LL_DELETE(stage->frames, frame);
    for (size_t i = 0; i < STAGE_CLIENTS; i++) {
        struct stage_client *client = &stage->clients[i];

        if (frame->conn == client->link || frame->conn == client->sub) {
            read_frame(stage, client, frame);
        }
    }
    free(frame);
}

/* Tells what the cores say, a loss before the call that met it. */
static void tell(struct stage *stage)
{
    for (size_t i = 0; i < STAGE_CLIENTS; i++) {
        struct rlock__core *core = &stage->clients[i].core;

        while (core->lost != NULL) {
            struct rlock__loss *loss = core->lost;

            DL_DELETE(core->lost, loss);
            stage->events.on_lost(stage->events.payload, i, loss);
            (void)rlock__loss_free(loss);
        }
        while (core->done != NULL) {
            struct rlock__call *call = core->done;

            DL_DELETE(core->done, call);
            stage->events.on_done(stage->events.payload, call);
        }
    }
}

/* Replies arrive before messages, so that who released the lock knows that before others have it.
 */
static struct stage_frame *first_frame(struct stage *stage)
{
    struct stage_frame *frame;

    LL_FOREACH(stage->frames, frame) {
        if (!frame->is_push) {
            return frame;
        }
    }
    return stage->frames;
}

/* What the cores want done. */
static void pump(struct stage *stage)
{
    tell(stage);
    for (size_t i = 0; i < STAGE_CLIENTS; i++) {
        struct stage_client *client = &stage->clients[i];

        struct rlock__pipeline *pipeline = &alone_link(&client->core)->pipeline;
        struct rlock__buf out = {0};

        rlock__pipeline_take(pipeline, &out);
        rlock__pipeline_wrote(pipeline, out.len);
        say(stage, client->link, &out);
        rlock__buf_fini(&out);
        say(stage, client->sub, &client->core.servers->sub.out);
    }
}

/* The one with the earliest timer. */
static struct rlock__core *next_core(struct stage *stage)
{
    struct rlock__core *next = &stage->clients[0].core;

    for (size_t i = 1; i < STAGE_CLIENTS; i++) {
        if (rlock__core_next(&stage->clients[i].core) < rlock__core_next(next)) {
            next = &stage->clients[i].core;
        }
    }
    return next;
}

static void run(struct stage *stage)
{
    pump(stage);
    while (stage->frames != NULL) {
        deliver(stage, first_frame(stage));
        pump(stage);
    }
    if (rlock__core_next(next_core(stage)) > stage->now) {
        stage->events.on_rest(stage->events.payload);
    }
}

/* ---- Time ---- */

static void set_time(struct stage *stage, int64_t now)
{
    stage->now = now;
    sim_server_set_time(stage->server, now);
    stage->events.on_time(stage->events.payload);
}

void stage_wait(struct stage *stage, int64_t until)
{
    struct rlock__core *core;

    while (core = next_core(stage), rlock__core_next(core) <= until) {
        set_time(stage, rlock__max(rlock__core_next(core), stage->now));
        rlock__core_tick(core, stage->now);
        run(stage);
    }
    set_time(stage, until);
    stage->events.on_rest(stage->events.payload);
}

/* ---- Events ---- */

void stage_begin(struct stage *stage, size_t client, struct rlock__call *call)
{
    call->spec = stage->clients[client].spec;
    rlock__core_begin(&stage->clients[client].core, call, stage->now);
    run(stage);
}

void stage_cancel(struct stage *stage, size_t client, const void *cancel)
{
    rlock__core_cancel(&stage->clients[client].core, cancel, stage->now);
    run(stage);
}

void stage_forced(struct stage *stage, size_t client, uint64_t number)
{
    rlock__core_forced(&stage->clients[client].core, number, stage->now);
    run(stage);
}

void stage_type(struct stage *stage, const char *const *words)
{
    assert_true(sim_server_words(stage->server, stage->hand, words));
    run(stage);
}

/* ---- Beginning and end ---- */

static void client_init(struct stage *stage, struct stage_client *client,
                        const struct rlock_ops *kind, int64_t lease_us)
{
    struct rlock__core *core = &client->core;
    unsigned index = (unsigned)(client - stage->clients);

    (void)snprintf(core->opts.uuid, sizeof(core->opts.uuid), "00000000-0000-4000-8000-%012u",
                   index % 1000);
    core->opts.serial = index + 1;
    core->random = index + 1;
    core->opts.renewed_lease_us = lease_us;
    core->opts.op_timeout_us = RLOCK__SECOND;
    core->opts.prefix = rlock__bytes("", 0);
    core->opts.no_pass = true;
    core->driver.unref = unref;
    alone_init(core, &client->server, "simulated");
    client->spec = rlock__spec_new(core, kind, rlock__bytes_of(STAGE_KEY), NULL);
    client->link = sim_server_connect(stage->server);
    client->sub = sim_server_connect(stage->server);
    rlock__core_link_up(alone_link(core), 1, true, stage->now);
    rlock__core_sub_up(core->servers, stage->now);
}

void stage_open(struct stage *stage, const struct rlock_ops *kind, int64_t lease_us,
                const struct stage_events *events)
{
    struct sim_events from_server = {.on_frame = on_frame, .payload = stage};

    *stage = (struct stage){.now = RLOCK__SECOND, .events = *events};
    stage->server = sim_server_new(1);
    sim_server_set_events(stage->server, &from_server);
    stage->hand = sim_server_connect(stage->server);
    for (size_t i = 0; i < STAGE_CLIENTS; i++) {
        client_init(stage, &stage->clients[i], kind, lease_us);
    }
    set_time(stage, stage->now);
}

void stage_close(struct stage *stage)
{
    for (size_t i = 0; i < STAGE_CLIENTS; i++) {
        struct stage_client *client = &stage->clients[i];

        rlock__core_abandon(&client->core);
        rlock__core_fini(&client->core);
        (void)rlock__spec_unref(client->spec);
    }
    stage->server = sim_server_free(stage->server);
}
