/* SPDX-License-Identifier: Apache-2.0 */
/* What the core does when the driver's map has changed. */
#include <utlist.h>

#include "lock/common.h"
#include "lock/core/finish.h"
#include "lock/hold/recovery.h"
#include "lock/server/ack.h"
#include "lock/server/channel.h"
#include "lock/server/listener.h"
#include "lock/server/route.h"

static bool is_elsewhere(const struct rlock__request *request)
{
    const struct rlock__server *server;

    if (request->subject == NULL || request->spec == NULL) {
        return false;
    }
    server = request->link->server;
    if (request->link >= &server->links[server->n_routed] && !rlock__acks_are_possible(server)) {
        return true; /* nothing connects that link any more */
    }
    return request->asking ? request->link->replaced
                           : rlock__route(request->spec)->server != server;
}

/* Refuses the requests that wait for the link and belong elsewhere. Their callers ask again. */
static void reroute_link(struct rlock__link *link, int64_t now)
{
    static const char text[] = "MASTERDOWN another server has the key now";
    static const struct rlock__value value = {
        .type = RLOCK__REPLY_ERROR, .str = text, .len = sizeof(text) - 1};
    static const struct rlock__reply moved = {.v = &value, .n = 1};

    rlock__pipeline_refuse_waiting(&link->pipeline, is_elsewhere, &moved, now);
}

/* A call that waits on the channel of another server asks again, and follows its key. */
static void reroute_call(struct rlock__call *call)
{
    if (call->channel != NULL && rlock__channel_is_outdated(call->channel, call->spec)) {
        rlock__ready(call, RLOCK__WOKEN);
    }
}

void rlock__reroute(struct rlock__core *core, int64_t now)
{
    struct rlock__server *server;
    struct rlock__call *call;

    core->moved_at = now;
    DL_FOREACH(core->servers, server) {
        for (unsigned i = 0; i < server->n_links; i++) {
            reroute_link(&server->links[i], now);
            rlock__recovery_reroute(&server->links[i]);
        }
        rlock__acks_reroute(server, now);
    }
    DL_FOREACH2(core->calls, call, all.next)
    {
        reroute_call(call);
    }
    rlock__listeners_reroute(core);
}
