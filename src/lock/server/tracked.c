/* SPDX-License-Identifier: Apache-2.0 */
#include "lock/server/tracked.h"

#include <assert.h>
#include <utlist.h>

#include "lock/common.h"
#include "lock/server/route.h"

#define PREFIX_LEN (sizeof(RLOCK__TRACKED) - 1)

static struct rlock__bytes key_of(const struct rlock__channel *channel)
{
    assert(channel->is_tracked && channel->name.len >= PREFIX_LEN);
    return rlock__bytes(channel->name.at + PREFIX_LEN, channel->name.len - PREFIX_LEN);
}

void rlock__tracked_rest(struct rlock__channel *channel)
{
    if (channel->is_tracked && !channel->is_armed) {
        rlock__channel_unsettle(channel);
    }
}

/* Whether somebody relies on the server's word. A call that asks may get the lock. */
static bool has_sleepers(const struct rlock__channel *channel)
{
    const struct rlock__call *call;

    DL_FOREACH2(channel->waiters, call, waits.next)
    {
        if (call->step == RLOCK__SLEEPING || call->step == RLOCK__SUBSCRIBING) {
            return true;
        }
    }
    return channel->listeners != NULL;
}

void rlock__tracked_settle(struct rlock__channel *channel)
{
    struct rlock__server *server = channel->server;
    struct rlock__buf *out = &server->sub.out;

    assert(channel->is_tracked && channel->asked == RLOCK__ASKED_NOTHING);
    if (channel->is_armed || !has_sleepers(channel)) {
        return;
    }
    channel->is_elsewhere = false; /* this server is asked again */
    if (!rlock__tracked_is_told(channel)) {
        return;
    }
    channel->asked = RLOCK__ASKED_SUBSCRIBE;
    DL_APPEND2(server->sub.asked, channel, asked_prev, asked_next);
    (void)rlock__buf_addf(out, "*2\r\n$4\r\nPTTL\r\n");
    (void)rlock__buf_add_bulk(out, key_of(channel));
    rlock__server_touch(server);
}

static void make_ready(struct rlock__channel *channel, enum rlock__why why)
{
    struct rlock__call *call;

    DL_FOREACH2(channel->waiters, call, waits.next)
    {
        rlock__ready(call, why);
    }
}

void rlock__tracked_looked(struct rlock__server *server, int64_t ttl_ms, int64_t now)
{
    struct rlock__channel *channel = server->sub.asked;

    if (channel == NULL || !channel->is_tracked) { /* no server sends that */
        return;
    }
    DL_DELETE2(server->sub.asked, channel, asked_prev, asked_next);
    channel->asked = RLOCK__ASKED_NOTHING;
    channel->is_armed = true;
    channel->ends_at = ttl_ms >= 0 ? now + rlock__reported_ms(ttl_ms) + 2 * RLOCK__MS : 0;
    if (ttl_ms == -2) { /* the key is not there */
        rlock__channel_wake(channel, true);
    } else if (ttl_ms >= 0) {
        make_ready(channel, RLOCK__LOOKED);
    }
    rlock__channel_unsettle(channel);
}

void rlock__tracked_refused(struct rlock__channel *channel, const struct rlock__reply *reply)
{
    struct rlock__server *server = channel->server;
    char text[160];

    assert(channel == server->sub.asked && channel->is_tracked);
    DL_DELETE2(server->sub.asked, channel, asked_prev, asked_next);
    channel->asked = RLOCK__ASKED_NOTHING;
    channel->is_deaf = true;
    rlock__note(server->core, RLOCK_LOG_WARNING, rlock__about("subscription", server->address, 0),
                "server %s refuses a look at a key, and waiters poll instead: %s", server->address,
                rlock__text(rlock__reply_str(reply, 0), text, sizeof(text)));
    make_ready(channel, RLOCK__DEAF);
    rlock__channel_unsettle(channel);
}
