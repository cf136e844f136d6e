/* SPDX-License-Identifier: Apache-2.0 */
/* A core without a driver: the test is its link, and its server. */
#ifndef RLOCK_TEST_SUPPORT_ALONE_H
#define RLOCK_TEST_SUPPORT_ALONE_H

#include "lock/internal.h"

/* For core.unref: the test frees the core. */
static inline void alone_unref(struct rlock__core *core)
{
    (void)core;
}

static inline struct rlock__server *alone_route(struct rlock__core *core, struct rlock__bytes key)
{
    (void)key;
    return core->servers;
}

/* Makes it a core of one server with one link; its options are set. */
static inline void alone_init(struct rlock__core *core, struct rlock__server *server,
                              const char *address)
{
    core->address = server->address = address;
    core->route = alone_route;
    rlock__core_init(core);
    rlock__core_add_server(core, server, 1);
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

#endif
