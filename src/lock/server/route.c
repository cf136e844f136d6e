/* SPDX-License-Identifier: Apache-2.0 */
#include "lock/server/route.h"

#include <assert.h>

struct rlock__link *rlock__route(const struct rlock__spec *spec)
{
    struct rlock__server *server = spec->core->driver.route(spec->core, spec);

    assert(server->core == spec->core);
    assert(server->n_routed > 0 && server->n_routed <= server->n_links);
    return &server->links[spec->hash % server->n_routed];
}

/* Redisson checks every five seconds whether it has to subscribe elsewhere. */
#define SETTLED_US (10 * RLOCK__SECOND)

struct rlock__bytes rlock__settled(const struct rlock__server *server, int64_t now)
{
    const struct rlock__core *core = server->core;
    bool in_cluster = core->driver.redirect != NULL;
    bool all_sharded = rlock__server_is_sharded(server) && !core->opts.announces_both;

    if ((core->moved_at != 0 && now < core->moved_at + SETTLED_US) ||
        (in_cluster && (!all_sharded || server->id == NULL))) {
        return rlock__bytes("-", 1);
    }
    return in_cluster ? rlock__bytes_of(server->id) : rlock__bytes("", 0);
}

void rlock__server_need(struct rlock__server *server, int64_t now)
{
    server->used_at = now;
    if (server->is_let_go) {
        server->is_let_go = false;
        rlock__server_touch(server); /* a link to it is due */
    }
}

struct rlock__need rlock__acks_need(const struct rlock__server *server)
{
    return rlock__replicas_need(&server->replicas, server->core->opts.acks);
}

unsigned rlock__acks_needed(const struct rlock__server *server)
{
    struct rlock__need need;

    if (!rlock__acks_are_possible(server)) {
        return 0;
    }
    assert(server->n_links > server->n_routed); /* WAIT has links of its own */
    need = rlock__acks_need(server);
    return rlock__need_size(&need) + server->core->opts.acks_on_disk;
}
