/* SPDX-License-Identifier: Apache-2.0 */
/* A core without a driver: the test is its link, and its server. */
#ifndef RLOCK_TEST_SUPPORT_ALONE_H
#define RLOCK_TEST_SUPPORT_ALONE_H

#include "lock/call/calls.h"
#include "lock/common.h"
#include "lock/core.h"
#include "lock/core/finish.h"
#include "lock/hold/hold.h"
#include "lock/hold/recovery.h"
#include "lock/hold/renew.h"

/* For core.unref: the test frees the core. */
static inline void alone_unref(struct rlock__core *core)
{
    (void)core;
}

static inline struct rlock__server *alone_route(struct rlock__core *core,
                                                const struct rlock__spec *spec)
{
    (void)spec;
    return core->servers;
}

/* Makes it a core of one server with one link; its options are set. */
static inline void alone_init(struct rlock__core *core, struct rlock__server *server,
                              const char *address)
{
    core->opts.address = server->address = address;
    core->driver.route = alone_route;
    rlock__core_init(core);
    rlock__core_add_server(core, server, 1, 0);
}

static inline struct rlock__link *alone_link(const struct rlock__core *core)
{
    return &core->servers->links[0];
}

/* Sends what is to be sent. */
static inline void alone_carry(struct rlock__pipeline *pipeline)
{
    struct rlock__buf bytes = {0};

    rlock__pipeline_take(pipeline, &bytes);
    rlock__pipeline_wrote(pipeline, bytes.len);
    rlock__buf_fini(&bytes);
}

/* The server's answer to the oldest request: up to four numbers. */
static inline void alone_answer(const struct rlock__core *core, size_t n, const int64_t numbers[],
                                int64_t now)
{
    struct rlock__link *link = alone_link(core);
    struct rlock__value values[4];
    const struct rlock__reply reply = {.v = values, .n = n, .is_array = true};

    for (size_t i = 0; i < n; i++) {
        values[i] = (struct rlock__value){.type = RLOCK__REPLY_INT, .num = numbers[i]};
    }
    alone_carry(&link->pipeline);
    rlock__core_reply(link, link->pipeline.gen, &reply, now);
}

/* The server's answer to the oldest attempt: another client of this library has the lock. */
static inline void alone_busy(const struct rlock__core *core, int64_t now)
{
    static const char holder[] = "11111111-0000-8000-8000-000000000000:1";
    const struct rlock__value values[] = {
        {.type = RLOCK__REPLY_INT, .num = 0},
        {.type = RLOCK__REPLY_INT, .num = 30000},
        {.type = RLOCK__REPLY_STR, .str = holder, .len = sizeof(holder) - 1}};
    struct rlock__link *link = alone_link(core);

    alone_carry(&link->pipeline);
    rlock__core_reply(link, link->pipeline.gen,
                      &(struct rlock__reply){.v = values, .n = 3, .is_array = true}, now);
}

/* The connection for messages receives a message of that kind, on that channel. */
static inline void alone_hears(struct rlock__server *server, const char *kind, const char *channel,
                               const char *message, int64_t now)
{
    const struct rlock__value values[] = {
        {.type = RLOCK__REPLY_STR, .str = kind, .len = strlen(kind)},
        {.type = RLOCK__REPLY_STR, .str = channel, .len = strlen(channel)},
        {.type = RLOCK__REPLY_STR, .str = message, .len = strlen(message)}};

    rlock__core_sub_reply(server, &(struct rlock__reply){.v = values, .n = 3, .is_array = true},
                          now);
}

/* One lock of a client that is connected. */
struct alone_scene {
    struct rlock__core core;
    struct rlock__server server;
    struct rlock__spec *spec;
};

static inline void alone_open(struct alone_scene *s, int64_t now)
{
    *s = (struct alone_scene){.core = {.opts.op_timeout_us = RLOCK__SECOND,
                                       .opts.renewed_lease_us = 30 * RLOCK__SECOND,
                                       .driver.unref = alone_unref}};
    alone_init(&s->core, &s->server, "here");
    s->spec = rlock__spec_new(&s->core, &rlock__reentrant_ops, rlock__bytes_of("a"), NULL);
    rlock__core_link_up(alone_link(&s->core), 1, false, now);
}

static inline struct rlock__call alone_call(const struct alone_scene *s, enum rlock__call_kind kind)
{
    return (struct rlock__call){.kind = kind, .spec = s->spec, .owner = {.id = 1, .given = true}};
}

/* The same with a second server. Redirections lead to the server that has the key. */
struct alone_pair {
    struct alone_scene alone; /* its server has the key at first */
    struct rlock__server other;
    bool is_moved; /* the other server has the key */
};

static inline struct rlock__server *alone_pair_route(struct rlock__core *core,
                                                     const struct rlock__spec *spec)
{
    struct alone_pair *pair = RLOCK__OF(struct alone_pair, alone.core, core);

    (void)spec;
    return pair->is_moved ? &pair->other : &pair->alone.server;
}

static inline enum rlock__redirect alone_pair_redirect(struct rlock__core *core,
                                                       const struct rlock__link *link,
                                                       const struct rlock__reply *reply,
                                                       struct rlock__server **ret_server)
{
    (void)link;
    (void)reply;
    *ret_server = alone_pair_route(core, NULL);
    return RLOCK__MOVED;
}

static inline void alone_pair_open(struct alone_pair *pair, int64_t now)
{
    *pair = (struct alone_pair){.other.address = "other"};
    alone_open(&pair->alone, now);
    pair->alone.core.driver.route = alone_pair_route;
    pair->alone.core.driver.redirect = alone_pair_redirect;
    pair->alone.core.several = true;
    rlock__core_add_server(&pair->alone.core, &pair->other, 1, 0);
}

static inline void alone_pair_close(struct alone_pair *pair)
{
    rlock__core_abandon(&pair->alone.core);
    rlock__core_fini(&pair->alone.core);
    (void)rlock__spec_unref(pair->alone.spec);
}

#endif
