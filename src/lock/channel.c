/* SPDX-License-Identifier: Apache-2.0 */
#include "lock/channel.h"

#include <stdlib.h>
#include <utlist.h>

#include "lock/hop.h"
#include "lock/internal.h"

/* What its waiters need is looked at, at the end of the event: one may leave, and the next join. */
static void unsettle(struct rlock__channel *channel)
{
    struct rlock__server *server = channel->server;

    if (!channel->unsettled) {
        channel->unsettled = true;
        LL_PREPEND2(server->sub.unsettled, channel, unsettled_next);
    }
}

static void add_command(struct rlock__channel *channel, bool sharded, bool subscribes)
{
    static const char *const commands[2][2] = {{"UNSUBSCRIBE", "SUBSCRIBE"},
                                               {"SUNSUBSCRIBE", "SSUBSCRIBE"}};
    struct rlock__buf *out = &channel->server->sub.out;

    (void)rlock__buf_add(out, "*2\r\n", 4);
    (void)rlock__buf_add_bulk(out, rlock__bytes_of(commands[sharded][subscribes]));
    (void)rlock__buf_add_bulk(out, channel->name);
}

static void ask(struct rlock__channel *channel, bool subscribe)
{
    const struct rlock__core *core = channel->server->core;

    channel->asked = subscribe ? RLOCK__ASKED_SUBSCRIBE : RLOCK__ASKED_UNSUBSCRIBE;
    DL_APPEND2(channel->server->sub.asked, channel, asked_prev, asked_next);
    channel->plain_asked = core->sharded && core->announces_both;
    if (channel->plain_asked) {
        add_command(channel, false, subscribe);
    }
    add_command(channel, core->sharded, subscribe);
}

/* Asks the server for what the waiters need, unless a question is open; frees a channel that needs
 * nothing. */
static void channel_settle(struct rlock__channel *channel)
{
    struct rlock__server *server = channel->server;
    bool wanted = channel->waiters != NULL;

    if (channel->asked != RLOCK__ASKED_NOTHING) {
        return;
    }
    if (server->sub.up && (wanted ? !channel->live : channel->live || channel->plain)) {
        ask(channel, wanted);
    } else if (!wanted) {
        HASH_DEL(server->channels, channel);
        free(channel);
    }
}

void rlock__channels_settle(struct rlock__server *server)
{
    struct rlock__channel *channel;

    while ((channel = server->sub.unsettled) != NULL) {
        server->sub.unsettled = channel->unsettled_next;
        channel->unsettled = false;
        channel_settle(channel);
    }
}

struct rlock__channel *rlock__channel_find(struct rlock__server *server, struct rlock__bytes name)
{
    struct rlock__channel *channel = NULL;

    HASH_FIND(hh, server->channels, name.at, name.len, channel);
    return channel;
}

static struct rlock__channel *channel_get(struct rlock__server *server, struct rlock__bytes name)
{
    struct rlock__channel *channel = rlock__channel_find(server, name);

    if (channel != NULL) {
        return channel;
    }
    channel = calloc(1, sizeof(*channel) + name.len);
    if (channel == NULL) {
        return NULL;
    }
    memcpy(channel->bytes, name.at, name.len);
    channel->server = server;
    channel->name = rlock__bytes(channel->bytes, name.len);
    HASH_ADD_KEYPTR(hh, server->channels, channel->bytes, name.len, channel);
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
    struct rlock__server *server = rlock__route(call->spec)->server;
    struct rlock__bytes name = channel_name(call);
    struct rlock__channel *channel = name.len != 0 ? channel_get(server, name) : NULL;

    if (channel == NULL) {
        return false;
    }
    call->channel = channel;
    DL_APPEND2(channel->waiters, call, wait_prev, wait_next);
    unsettle(channel);
    return true;
}

void rlock__channel_leave(struct rlock__call *call)
{
    struct rlock__channel *channel = call->channel;

    call->channel = NULL;
    DL_DELETE2(channel->waiters, call, wait_prev, wait_next);
    unsettle(channel);
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
static struct rlock__channel *answered(struct rlock__server *server)
{
    struct rlock__channel *channel = server->sub.asked;

    if (channel != NULL) {
        DL_DELETE2(server->sub.asked, channel, asked_prev, asked_next);
    }
    return channel;
}

void rlock__channel_plain(struct rlock__channel *channel, bool subscribed)
{
    channel->plain_asked = false;
    channel->plain = subscribed;
}

int64_t rlock__channel_ears(const struct rlock__channel *channel, bool may_be)
{
    bool asked = may_be && channel != NULL && channel->asked != RLOCK__ASKED_NOTHING;

    return channel == NULL
               ? 0
               : (channel->live || asked) + (channel->plain || (asked && channel->plain_asked));
}

void rlock__channel_acknowledged(struct rlock__channel *channel, bool subscribed)
{
    struct rlock__server *server = channel->server;

    if (channel->asked == RLOCK__ASKED_NOTHING || server->sub.asked != channel ||
        channel->plain_asked /* which is answered first */) {
        if (subscribed != channel->live) { /* nobody asked: its slot has moved */
            channel->live = subscribed;
            rlock__channel_wake(channel, true);
            unsettle(channel);
        }
        return;
    }
    (void)answered(server);
    channel->asked = RLOCK__ASKED_NOTHING;
    channel->live = subscribed;
    server->sub.refused = server->sub.refused && !subscribed;
    if (subscribed) {
        rlock__channel_wake(channel, true);
    }
    unsettle(channel);
}

/* Its slot is at another server: no subscription is left here. */
static void turned_away(struct rlock__channel *channel)
{
    channel->asked = RLOCK__ASKED_NOTHING;
    channel->live = false;
    rlock__channel_wake(channel, true);
    if (channel->waiters == NULL) {
        unsettle(channel);
    }
}

/* Nobody needs its messages: they may go on coming. */
static void left(struct rlock__channel *channel)
{
    channel->asked = RLOCK__ASKED_NOTHING;
    channel->live = false;
    unsettle(channel);
}

/* All but old Redissons are heard still. */
static void plain_refused(struct rlock__channel *channel, const struct rlock__reply *reply)
{
    struct rlock__server *server = channel->server;
    char text[160];

    rlock__channel_plain(channel, false);
    if (channel->asked == RLOCK__ASKED_SUBSCRIBE && !server->sub.plain_refused) {
        rlock__note(server->core, RLOCK_LOG_WARNING,
                    "server %s refuses a plain subscription, sharded ones alone are heard: %s",
                    server->address, rlock__text(rlock__reply_str(reply, 0), text, sizeof(text)));
    }
    server->sub.plain_refused |= channel->asked == RLOCK__ASKED_SUBSCRIBE;
}

/* The waiters of the channel poll, until somebody asks for it anew. */
void rlock__channel_refused(struct rlock__server *server, const struct rlock__reply *reply)
{
    struct rlock__channel *channel = server->sub.asked;
    bool is_elsewhere = rlock__hop_learn(&server->links[0], reply) != NULL;
    char text[160];

    if (channel != NULL && channel->plain_asked) {
        if (!is_elsewhere) { /* nobody is sent elsewhere for a plain one: that was of one before */
            plain_refused(channel, reply);
        }
        return;
    }
    channel = answered(server);
    if (is_elsewhere) {
        if (channel != NULL) {
            turned_away(channel);
        }
        return;
    }
    if (channel != NULL && channel->asked == RLOCK__ASKED_UNSUBSCRIBE) {
        left(channel);
        return;
    }
    if (!server->sub.refused) {
        rlock__note(server->core, RLOCK_LOG_WARNING,
                    "server %s refuses a subscription, waiters ask every %d ms instead: %s",
                    server->address, (int)(RLOCK__POLL_US / 1000),
                    rlock__text(rlock__reply_str(reply, 0), text, sizeof(text)));
    }
    server->sub.refused = true;
    if (channel != NULL) {
        channel->asked = RLOCK__ASKED_NOTHING;
        if (channel->waiters == NULL) {
            unsettle(channel);
        }
    }
}

void rlock__channels_up(struct rlock__server *server)
{
    struct rlock__channel *channel, *after;

    rlock__channels_down(server);
    server->sub.up = true;
    HASH_ITER(hh, server->channels, channel, after) {
        unsettle(channel);
    }
}

void rlock__channels_down(struct rlock__server *server)
{
    struct rlock__channel *channel, *after;
    struct rlock__call *call;

    server->sub.up = false;
    server->sub.asked = NULL;
    rlock__buf_clear(&server->sub.out);
    HASH_ITER(hh, server->channels, channel, after) {
        channel->asked = RLOCK__ASKED_NOTHING;
        channel->live = channel->plain = channel->plain_asked = false;
        DL_FOREACH2(channel->waiters, call, wait_next)
        {
            if (call->kind == RLOCK__ACQUIRE) {
                rlock__ready(call, RLOCK__DEAF);
            }
        }
        unsettle(channel);
    }
}

void rlock__channels_fini(struct rlock__server *server)
{
    struct rlock__channel *channel, *after;

    HASH_ITER(hh, server->channels, channel, after) {
        HASH_DEL(server->channels, channel);
        free(channel);
    }
}
