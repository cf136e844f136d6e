/* SPDX-License-Identifier: Apache-2.0 */
/* The calls that wait on a channel. Listeners are in listener.c. */
#include <assert.h>
#include <utlist.h>

#include "lock/server/channel.h"
#include "lock/server/route.h"
#include "lock/server/stock.h"

bool rlock__channel_join(struct rlock__call *call)
{
    struct rlock__server *server = rlock__route(call->spec)->server;
    bool queues = (call->spec->ops->caps & RLOCK__CAP_QUEUES) != 0;
    struct rlock__channel *channel = queues ? rlock__channel_own(server, call->spec, call->number)
                                            : rlock__channel_get(server, call->spec->channel);

    assert(call->kind == RLOCK__ACQUIRE && call->channel == NULL);
    assert(channel == NULL || channel->server == server);
    if (channel == NULL) {
        return false;
    }
    call->channel = channel;
    DL_APPEND2(channel->waiters, call, waits.prev, waits.next);
    rlock__channel_unsettle(channel);
    return true;
}

static struct rlock__channel *leave(struct rlock__call *call)
{
    struct rlock__channel *channel = call->channel;

    assert(channel->waiters != NULL && call->kind == RLOCK__ACQUIRE);
    call->channel = NULL;
    DL_DELETE2(channel->waiters, call, waits.prev, waits.next);
    return channel;
}

void rlock__channel_leave(struct rlock__call *call)
{
    rlock__channel_unsettle(leave(call));
}

void rlock__channel_leave_granted(struct rlock__call *call)
{
    struct rlock__channel *channel = leave(call);

    if (!rlock__stock_put_by(channel, call)) {
        rlock__channel_unsettle(channel);
    }
}

bool rlock__channel_is_live(const struct rlock__call *call)
{
    assert(call->channel == NULL || call->channel->waiters != NULL);
    return call->channel != NULL && rlock__channel_is_subscribed(call->channel);
}
