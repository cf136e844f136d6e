/* SPDX-License-Identifier: Apache-2.0 */
#include "lock/channel.h"

#include <stdlib.h>
#include <utlist.h>

#include "lock/internal.h"

/* What its waiters need is looked at, at the end of the event: one may leave, and the next join. */
static void unsettle(struct rlock__core *core, struct rlock__channel *channel)
{
    if (!channel->unsettled) {
        channel->unsettled = true;
        LL_PREPEND2(core->server.sub.unsettled, channel, unsettled_next);
    }
}

/* Asks the server for what the waiters need, unless a question is open; frees a channel that needs
 * nothing. */
static void channel_settle(struct rlock__core *core, struct rlock__channel *channel)
{
    struct rlock__buf *out = &core->server.sub.out;
    bool wanted = channel->waiters != NULL;

    if (channel->asked != RLOCK__ASKED_NOTHING) {
        return;
    }
    if (core->server.sub.up && wanted != channel->live) {
        channel->asked = wanted ? RLOCK__ASKED_SUBSCRIBE : RLOCK__ASKED_UNSUBSCRIBE;
        DL_APPEND2(core->server.sub.asked, channel, asked_prev, asked_next);
        (void)rlock__buf_add(out, "*2\r\n", 4);
        (void)rlock__buf_add_bulk(out, rlock__bytes_of(wanted ? "SUBSCRIBE" : "UNSUBSCRIBE"));
        (void)rlock__buf_add_bulk(out, channel->name);
    } else if (!wanted) {
        HASH_DEL(core->channels, channel);
        free(channel);
    }
}

void rlock__channels_settle(struct rlock__core *core)
{
    struct rlock__channel *channel;

    while ((channel = core->server.sub.unsettled) != NULL) {
        core->server.sub.unsettled = channel->unsettled_next;
        channel->unsettled = false;
        channel_settle(core, channel);
    }
}

struct rlock__channel *rlock__channel_find(struct rlock__core *core, struct rlock__bytes name)
{
    struct rlock__channel *channel = NULL;

    HASH_FIND(hh, core->channels, name.at, name.len, channel);
    return channel;
}

static struct rlock__channel *channel_get(struct rlock__core *core, struct rlock__bytes name)
{
    struct rlock__channel *channel = rlock__channel_find(core, name);

    if (channel != NULL) {
        return channel;
    }
    channel = calloc(1, sizeof(*channel) + name.len);
    if (channel == NULL) {
        return NULL;
    }
    memcpy(channel->bytes, name.at, name.len);
    channel->name = rlock__bytes(channel->bytes, name.len);
    HASH_ADD_KEYPTR(hh, core->channels, channel->bytes, name.len, channel);
    if (channel->hh.tbl == NULL) {
        free(channel);
        return NULL;
    }
    return channel;
}

/* Where the call is woken: the lock's channel, or in a queue on the server one of its own. */
static struct rlock__bytes channel_name(const struct rlock__call *call)
{
    struct rlock__buf *buf = &call->core->scratch;
    char owner[RLOCK__OWNER_SIZE];

    if ((call->spec->ops->caps & RLOCK__CAP_QUEUES) == 0) {
        return call->spec->channel;
    }
    rlock__buf_clear(buf);
    (void)rlock__buf_add(buf, call->spec->channel.at, call->spec->channel.len);
    (void)rlock__buf_addf(buf, ":%s", rlock__owner_text(call->core, call->number, owner).at);
    return rlock__bytes(buf->data, buf->failed ? 0 : buf->len);
}

bool rlock__channel_join(struct rlock__call *call)
{
    struct rlock__core *core = call->core;
    struct rlock__bytes name = channel_name(call);
    struct rlock__channel *channel = name.len != 0 ? channel_get(core, name) : NULL;

    if (channel == NULL) {
        return false;
    }
    call->channel = channel;
    DL_APPEND2(channel->waiters, call, wait_prev, wait_next);
    unsettle(core, channel);
    return true;
}

void rlock__channel_leave(struct rlock__call *call)
{
    struct rlock__channel *channel = call->channel;

    call->channel = NULL;
    DL_DELETE2(channel->waiters, call, wait_prev, wait_next);
    unsettle(call->core, channel);
}

bool rlock__channel_is_live(const struct rlock__call *call)
{
    return call->channel != NULL && call->channel->live &&
           call->channel->asked == RLOCK__ASKED_NOTHING;
}

void rlock__channel_wake(struct rlock__channel *channel, bool all)
{
    struct rlock__call *call;

    DL_FOREACH2(channel->waiters, call, wait_next)
    {
        if (call->kind == RLOCK__LISTEN || all || call->queue == NULL) {
            rlock__ready(call, RLOCK__WOKEN);
        }
    }
}

/* The channel whose command is answered next, taken out of the line. */
static struct rlock__channel *answered(struct rlock__core *core)
{
    struct rlock__channel *channel = core->server.sub.asked;

    if (channel != NULL) {
        DL_DELETE2(core->server.sub.asked, channel, asked_prev, asked_next);
    }
    return channel;
}

void rlock__channel_acknowledged(struct rlock__core *core, struct rlock__channel *channel,
                                 bool subscribed)
{
    if (channel->asked == RLOCK__ASKED_NOTHING || answered(core) != channel) {
        return; /* nobody asked */
    }
    channel->asked = RLOCK__ASKED_NOTHING;
    channel->live = subscribed;
    core->server.sub.refused = core->server.sub.refused && !subscribed;
    if (subscribed) {
        rlock__channel_wake(channel, true);
    }
    unsettle(core, channel);
}

/* The waiters of the channel poll, until somebody asks for it anew. */
void rlock__channel_refused(struct rlock__core *core, const struct rlock__reply *reply)
{
    struct rlock__channel *channel = answered(core);
    char text[160];

    if (!core->server.sub.refused) {
        rlock__note(core, RLOCK_LOG_WARNING,
                    "server %s refuses a subscription, waiters ask every %d ms instead: %s",
                    core->server.address, (int)(RLOCK__POLL_US / 1000),
                    rlock__text(rlock__reply_str(reply, 0), text, sizeof(text)));
    }
    core->server.sub.refused = true;
    if (channel != NULL) {
        channel->asked = RLOCK__ASKED_NOTHING;
        if (channel->waiters == NULL) {
            unsettle(core, channel);
        }
    }
}

void rlock__channels_up(struct rlock__core *core)
{
    struct rlock__channel *channel, *after;

    rlock__channels_down(core);
    core->server.sub.up = true;
    HASH_ITER(hh, core->channels, channel, after) {
        unsettle(core, channel);
    }
}

void rlock__channels_down(struct rlock__core *core)
{
    struct rlock__channel *channel, *after;
    struct rlock__call *call;

    core->server.sub.up = false;
    core->server.sub.asked = NULL;
    rlock__buf_clear(&core->server.sub.out);
    HASH_ITER(hh, core->channels, channel, after) {
        channel->asked = RLOCK__ASKED_NOTHING;
        channel->live = false;
        DL_FOREACH2(channel->waiters, call, wait_next)
        {
            if (call->kind == RLOCK__ACQUIRE) {
                rlock__ready(call, RLOCK__DEAF);
            }
        }
        unsettle(core, channel);
    }
}

void rlock__channels_fini(struct rlock__core *core)
{
    struct rlock__channel *channel, *after;

    HASH_ITER(hh, core->channels, channel, after) {
        HASH_DEL(core->channels, channel);
        free(channel);
    }
}
