/* SPDX-License-Identifier: Apache-2.0 */
#include "lock/server/channel.h"

#include <assert.h>
#include <stdlib.h>
#include <utlist.h>

#include "lock/common.h"
#include "lock/server/hop.h"
#include "lock/server/listener.h"
#include "lock/server/route.h"
#include "lock/server/stock.h"
#include "lock/server/tracked.h"

#define LINGER_US RLOCK__SECOND /* a channel that may be needed again is kept for so long */

static void add_command(struct rlock__channel *const *channels, size_t n, bool sharded,
                        bool subscribes)
{
    static const char *const commands[2][2] = {{"UNSUBSCRIBE", "SUBSCRIBE"},
                                               {"SUNSUBSCRIBE", "SSUBSCRIBE"}};
    struct rlock__buf *out = &channels[0]->server->sub.out;

    assert(n > 0 && channels[0]->server->sub.up);
    (void)rlock__buf_addf(out, "*%u\r\n", (unsigned)n + 1);
    (void)rlock__buf_add_bulk(out, rlock__bytes_of(commands[sharded][subscribes]));
    for (size_t i = 0; i < n; i++) {
        (void)rlock__buf_add_bulk(out, channels[i]->name);
    }
}

void rlock__channels_ask(struct rlock__channel *const *channels, size_t n, bool subscribe)
{
    bool sharded = n > 0 && channels[0]->server->sub.is_sharded;

    for (size_t i = 0; i < n; i++) {
        struct rlock__channel *channel = channels[i];

        assert(channel->server == channels[0]->server);
        assert(channel->asked == RLOCK__ASKED_NOTHING);
        assert(!channel->shares && !channel->plain_asked);
        assert(subscribe ? !channel->live : channel->live || channel->plain);
        channel->asked = subscribe ? RLOCK__ASKED_SUBSCRIBE : RLOCK__ASKED_UNSUBSCRIBE;
        channel->shares = i + 1 < n;
        channel->is_elsewhere = false;
        DL_APPEND2(channel->server->sub.asked, channel, asked_prev, asked_next);
        channel->plain_asked = sharded && channel->server->core->opts.announces_both;
    }
    if (n > 0 && channels[0]->plain_asked) {
        add_command(channels, n, false, subscribe);
    }
    if (n > 0) {
        add_command(channels, n, sharded, subscribe);
        rlock__server_touch(channels[0]->server);
    }
}

static void channel_free(struct rlock__channel *channel)
{
    rlock__timer_unset(&channel->server->core->timers, &channel->linger);
    if (channel->spec != NULL) {
        (void)rlock__spec_unref(channel->spec);
    }
    free(channel);
}

static void on_linger(struct rlock__timer *timer, int64_t now)
{
    struct rlock__channel *channel = RLOCK__OF(struct rlock__channel, linger, timer);

    (void)now;
    channel->is_over = true;
    rlock__channel_unsettle(channel);
}

/* Whether the channel is needed, or was needed a moment ago and may be needed again. */
static bool is_wanted(struct rlock__channel *channel, int64_t now)
{
    struct rlock__core *core = channel->server->core;
    bool is_needed = rlock__channel_is_needed(channel), kept = now < channel->kept_until;

    if (is_needed || core->closed || (!kept && (!channel->lingers || !channel->live))) {
        rlock__timer_unset(&core->timers, &channel->linger);
        channel->is_over = false;
        return is_needed;
    }
    if (!channel->linger.set && (kept || !channel->is_over)) {
        rlock__timer_set(&core->timers, &channel->linger,
                         rlock__max(now + LINGER_US, channel->kept_until));
        channel->is_over = false;
    }
    return !channel->is_over;
}

/* Subscribes or unsubscribes as needed, unless a command is open; or frees the channel. */
static void channel_settle(struct rlock__channel *channel, int64_t now)
{
    struct rlock__server *server = channel->server;
    bool wanted = is_wanted(channel, now);

    assert(!channel->unsettled);
    assert(server->sub.up || (!channel->live && channel->asked == RLOCK__ASKED_NOTHING));
    if (channel->asked != RLOCK__ASKED_NOTHING || channel->stock != NULL) {
        return;
    }
    if (channel->is_tracked && wanted) {
        rlock__tracked_settle(channel);
    } else if (server->sub.up && (wanted ? !channel->live : channel->live || channel->plain)) {
        rlock__channels_ask(&channel, 1, wanted);
    } else if (!wanted) {
        assert(!channel->live && !channel->plain && !channel->shares);
        rlock__table_remove(&server->channels, &channel->node);
        channel_free(channel);
    }
}

void rlock__channels_settle(struct rlock__server *server, int64_t now)
{
    struct rlock__channel *channel;

    while ((channel = server->sub.unsettled) != NULL) {
        assert(channel->unsettled && channel->server == server);
        server->sub.unsettled = channel->unsettled_next;
        channel->unsettled = false;
        channel_settle(channel, now);
    }
}

static struct rlock__channel *channel_of(struct rlock__table_node *node)
{
    return node != NULL ? RLOCK__OF(struct rlock__channel, node, node) : NULL;
}

struct rlock__channel *rlock__channel_next(const struct rlock__server *server,
                                           const struct rlock__channel *at)
{
    return channel_of(rlock__table_after(&server->channels, at != NULL ? &at->node : NULL));
}

struct rlock__channel *rlock__channel_find(struct rlock__server *server, struct rlock__bytes name)
{
    bool any = server->channels.n != 0; /* most locks are free, and need no channel */
    struct rlock__table_node *node =
        any ? rlock__table_first(&server->channels, rlock__bytes_hash(name)) : NULL;

    while (node != NULL && !rlock__bytes_equal(channel_of(node)->name, name)) {
        node = rlock__table_next(node);
    }
    assert(node == NULL || channel_of(node)->server == server);
    return channel_of(node);
}

struct rlock__channel *rlock__channel_get(struct rlock__server *server, struct rlock__bytes name)
{
    struct rlock__channel *channel = rlock__channel_find(server, name);

    assert(name.len > 0);
    if (channel != NULL) {
        return channel;
    }
    channel = calloc(1, sizeof(*channel) + name.len);
    if (channel == NULL) {
        return NULL;
    }
    memcpy(channel->bytes, name.at, name.len);
    channel->server = server;
    channel->linger.fire = on_linger;
    channel->name = rlock__bytes(channel->bytes, name.len);
    rlock__table_add(&server->channels, &channel->node, rlock__bytes_hash(name));
    channel->is_tracked = rlock__bytes_begin(name, RLOCK__TRACKED);
    server->sub.wants_tracking |= channel->is_tracked;
    return channel;
}

bool rlock__channel_is_subscribed(const struct rlock__channel *channel)
{
    return channel->is_tracked ? rlock__tracked_is_told(channel)
                               : channel->live && channel->asked == RLOCK__ASKED_NOTHING;
}

/* Takes the channel whose command is answered next out of the list. */
static struct rlock__channel *answered(struct rlock__server *server)
{
    struct rlock__channel *channel = server->sub.asked;

    if (channel != NULL) {
        assert(channel->server == server && channel->asked != RLOCK__ASKED_NOTHING);
        DL_DELETE2(server->sub.asked, channel, asked_prev, asked_next);
        assert(!channel->shares || server->sub.asked != NULL); /* the next channel of its command */
    }
    return channel;
}

void rlock__channel_plain(struct rlock__channel *channel, bool subscribed)
{
    channel->plain_asked = false;
    channel->plain = subscribed;
}

int64_t rlock__channel_own_receivers(const struct rlock__channel *channel, bool may_be)
{
    bool asked = may_be && channel != NULL && channel->asked != RLOCK__ASKED_NOTHING;

    return channel == NULL
               ? 0
               : (channel->live || asked) + (channel->plain || (asked && channel->plain_asked));
}

void rlock__channel_acknowledged(struct rlock__channel *channel, bool subscribed)
{
    struct rlock__server *server = channel->server;

    assert(server->sub.up);
    if (channel->asked == RLOCK__ASKED_NOTHING || server->sub.asked != channel ||
        channel->plain_asked /* which is answered first */) {
        if (subscribed != channel->live) { /* nobody asked: its slot has moved */
            channel->live = subscribed;
            rlock__stock_forget(channel);
            rlock__channel_wake(channel, true);
            rlock__channel_unsettle(channel);
        }
        return;
    }
    (void)answered(server);
    channel->asked = RLOCK__ASKED_NOTHING;
    channel->shares = false;
    channel->live = subscribed;
    server->sub.refused = server->sub.refused && !subscribed;
    if (subscribed) {
        rlock__channel_wake(channel, true);
    }
    rlock__channel_unsettle(channel);
}

/* The channel's slot is at another server: no subscription is left here. */
static void turned_away(struct rlock__channel *channel)
{
    assert(channel->asked != RLOCK__ASKED_NOTHING && !channel->shares);
    channel->asked = RLOCK__ASKED_NOTHING;
    channel->live = false;
    channel->is_elsewhere = true;
    rlock__stock_forget(channel);
    rlock__channel_wake(channel, true);
    if (!rlock__channel_is_needed(channel)) {
        rlock__channel_unsettle(channel);
    }
}

/* The server refused to unsubscribe: messages that nobody needs may go on coming. */
static void left(struct rlock__channel *channel)
{
    assert(channel->asked == RLOCK__ASKED_UNSUBSCRIBE && !channel->shares);
    assert(channel->stock == NULL); /* a stock takes it out before */
    channel->asked = RLOCK__ASKED_NOTHING;
    channel->live = false;
    rlock__channel_unsettle(channel);
}

static void warn(struct rlock__server *server, const char *what, const struct rlock__reply *reply)
{
    char text[160];

    rlock__note(server->core, RLOCK_LOG_WARNING, rlock__about("subscription", server->address, 0),
                "server %s refuses a %s: %s", server->address, what,
                rlock__text(rlock__reply_str(reply, 0), text, sizeof(text)));
}

/* The server refused the plain channel: only messages of old Redissons do not come. */
static void plain_refused(struct rlock__channel *channel, const struct rlock__reply *reply)
{
    struct rlock__server *server = channel->server;

    assert(channel->plain_asked && channel->asked != RLOCK__ASKED_NOTHING);
    rlock__channel_plain(channel, false);
    if (channel->asked == RLOCK__ASKED_SUBSCRIBE && !server->sub.plain_refused) {
        warn(server, "plain subscription, and waiters hear the sharded one only", reply);
    }
    server->sub.plain_refused |= channel->asked == RLOCK__ASKED_SUBSCRIBE;
}

/* The server refused the channel: its waiters poll until the next call subscribes. */
static void refused(struct rlock__channel *channel)
{
    assert(channel->asked == RLOCK__ASKED_SUBSCRIBE && !channel->shares);
    channel->asked = RLOCK__ASKED_NOTHING;
    rlock__stock_forget(channel);
    if (!rlock__channel_is_needed(channel)) {
        rlock__channel_unsettle(channel);
    }
}

void rlock__channel_refused(struct rlock__server *server, const struct rlock__reply *reply)
{
    struct rlock__channel *channel = server->sub.asked;
    const struct rlock__server *named = rlock__hop_learn(&server->links[0], reply);
    bool is_elsewhere = named != NULL && named != server, shares;

    if (channel != NULL && channel->plain_asked) {
        if (!is_elsewhere) { /* a plain one is never elsewhere: an older command's */
            plain_refused(channel, reply);
        }
        return;
    }
    if (!is_elsewhere && channel != NULL && channel->is_tracked) {
        rlock__tracked_refused(channel, reply);
        return;
    }
    if (!is_elsewhere && (channel == NULL || channel->asked == RLOCK__ASKED_SUBSCRIBE)) {
        if (!server->sub.refused) {
            warn(server, "subscription, and waiters poll instead", reply);
        }
        server->sub.refused = true;
    }
    for (shares = channel != NULL; shares;) { /* all channels of the command */
        channel = answered(server);
        shares = channel->shares;
        channel->shares = false;
        if (is_elsewhere) {
            turned_away(channel);
        } else if (channel->asked == RLOCK__ASKED_UNSUBSCRIBE) {
            left(channel);
        } else {
            refused(channel);
        }
    }
}

void rlock__channels_up(struct rlock__server *server)
{
    struct rlock__channel *channel = NULL;

    rlock__channels_down(server);
    assert(server->sub.asked == NULL && server->sub.out.len == 0);
    server->sub.up = true;
    while ((channel = rlock__channel_next(server, channel)) != NULL) {
        rlock__channel_unsettle(channel);
    }
}

void rlock__channels_down(struct rlock__server *server)
{
    struct rlock__channel *channel = NULL;
    struct rlock__call *call;

    server->sub.up = false;
    server->sub.asked = NULL;
    rlock__buf_clear(&server->sub.out);
    while ((channel = rlock__channel_next(server, channel)) != NULL) {
        channel->asked = RLOCK__ASKED_NOTHING;
        channel->live = channel->plain = channel->plain_asked = channel->shares = false;
        channel->is_armed = channel->is_deaf = false;
        DL_FOREACH2(channel->waiters, call, waits.next)
        {
            assert(call->channel == channel);
            rlock__ready(call, RLOCK__DEAF);
        }
        rlock__channel_unsettle(channel);
    }
    rlock__stocks_drop(server);
    assert(server->sub.asked == NULL && server->sub.out.len == 0);
}

static void close_all(struct rlock__server *server)
{
    struct rlock__channel *channel = NULL;

    while ((channel = rlock__channel_next(server, channel)) != NULL) {
        if (channel->lingers) {
            rlock__channel_unsettle(channel);
        }
        if (channel->spec != NULL) { /* a spec keeps the client's memory */
            channel->spec = rlock__spec_unref(channel->spec);
        }
    }
}

void rlock__channels_close(struct rlock__core *core)
{
    struct rlock__server *server;

    DL_FOREACH(core->servers, server) {
        close_all(server);
    }
}

void rlock__channels_fini(struct rlock__server *server)
{
    struct rlock__table_node *node;
    size_t from = 0;

    rlock__stocks_drop(server);
    while ((node = rlock__table_take(&server->channels, &from)) != NULL) {
        assert(!rlock__channel_is_needed(channel_of(node)));
        channel_free(channel_of(node));
    }
    assert(server->channels.n == 0);
}
