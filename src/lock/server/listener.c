/* SPDX-License-Identifier: Apache-2.0 */
#include "lock/server/listener.h"

#include <assert.h>
#include <utlist.h>

#include "lock/server/channel.h"
#include "lock/server/route.h"

static void leave(struct rlock__listener *listener)
{
    assert(listener->channel->listeners != NULL);
    DL_DELETE(listener->channel->listeners, listener);
    rlock__channel_unsettle(listener->channel);
    listener->channel = NULL;
}

static bool join(struct rlock__listener *listener)
{
    struct rlock__channel *channel =
        rlock__channel_get(rlock__route(listener->spec)->server, listener->spec->channel);

    assert(listener->channel == NULL && !listener->is_over);
    if (channel == NULL) {
        return false;
    }
    listener->channel = channel;
    DL_APPEND(channel->listeners, listener);
    rlock__channel_unsettle(channel);
    return true;
}

void rlock__listener_begin(struct rlock__core *core, struct rlock__listener *listener)
{
    assert(listener->spec->core == core);
    assert(listener->channel == NULL && !listener->is_notified && !listener->is_over);
    listener->core = core;
    DL_APPEND2(core->listeners, listener, all_prev, all_next);
    if (core->closed || !join(listener)) {
        rlock__listener_end(listener);
    } else if (rlock__channel_is_subscribed(listener->channel)) {
        rlock__listener_notify(listener); /* a message may have come just before */
    }
}

void rlock__listener_end(struct rlock__listener *listener)
{
    if (listener->is_over) {
        assert(listener->channel == NULL);
        return;
    }
    if (listener->channel != NULL) {
        leave(listener);
    }
    assert(listener->core->listeners != NULL);
    DL_DELETE2(listener->core->listeners, listener, all_prev, all_next);
    listener->is_over = true;
    rlock__listener_notify(listener);
}

void rlock__listeners_reroute(struct rlock__core *core)
{
    struct rlock__listener *listener, *after;

    DL_FOREACH_SAFE2(core->listeners, listener, after, all_next)
    {
        assert(!listener->is_over);
        if (rlock__channel_is_outdated(listener->channel, listener->spec)) {
            leave(listener);
            if (!join(listener)) {
                rlock__listener_end(listener);
            }
        }
    }
}

void rlock__listeners_close(struct rlock__core *core)
{
    assert(core->closed); /* otherwise more may come */
    while (core->listeners != NULL) {
        rlock__listener_end(core->listeners);
    }
}

struct rlock__listener *rlock__core_take_notified(struct rlock__core *core)
{
    struct rlock__listener *listener = core->notified;

    if (listener != NULL) {
        assert(listener->is_notified && listener->core == core);
        core->notified = listener->notified_next;
        listener->notified_next = NULL;
        listener->is_notified = false;
    }
    return listener;
}
