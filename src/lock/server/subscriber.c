/* SPDX-License-Identifier: Apache-2.0 */
#include "lock/server/subscriber.h"

#include <assert.h>
#include <utlist.h>

#include "lock/server/tracked.h"

/* Whether no channel needs the connection of a server that is let go. */
static bool is_unneeded(const struct rlock__server *server)
{
    return server->is_let_go && server->channels.n == 0;
}

/* Whether the connection is up, but its handshake did not ask for tracking. It is replaced then. */
static bool is_outgrown(const struct rlock__subscriber *sub)
{
    return sub->up && sub->wants_tracking && !sub->asked_tracking;
}

int64_t rlock__subscriber_due(const struct rlock__server *server)
{
    const struct rlock__subscriber *sub = &server->sub;
    const struct rlock__core *core = server->core;

    assert(RLOCK__IMPLIES(sub->up, !sub->tries.connecting));
    assert(sub->up || sub->asked == NULL);
    if (!sub->up) {
        return server->channels.n != 0 && !core->closed ? rlock__tries_due(&sub->tries, core)
                                                        : RLOCK__NEVER;
    }
    if (is_unneeded(server) || is_outgrown(sub)) {
        return 0;
    }
    return sub->pinged_at != 0 ? sub->pinged_at + core->opts.op_timeout_us
                               : sub->heard_at + RLOCK__IDLE_US;
}

bool rlock__subscriber_begin(struct rlock__server *server, int64_t now)
{
    if (server->sub.up || now < rlock__subscriber_due(server)) {
        return false;
    }
    rlock__tries_begin(&server->sub.tries, server->core);
    server->sub.asked_tracking = server->sub.wants_tracking;
    server->sub.tracks = false;
    return true;
}

static void note_untracked(const struct rlock__server *server)
{
    const struct rlock__subscriber *sub = &server->sub;

    if (sub->asked_tracking && !sub->tracks) {
        rlock__note(server->core, RLOCK_LOG_INFO, rlock__about("subscription", server->address, 0),
                    "server %s does not track keys for this user, and waiters for setnx locks poll "
                    "(CLIENT TRACKING, Redis 6 or later)",
                    server->address);
    }
}

void rlock__subscriber_up(struct rlock__server *server, int64_t now)
{
    assert(!server->sub.up);
    if (server->sub.tries.broke_at != 0) {
        rlock__note(server->core, RLOCK_LOG_INFO, rlock__about("subscription", server->address, 0),
                    "server %s: the subscriber connection is back after %lld ms", server->address,
                    (long long)((now - server->sub.tries.broke_at) / RLOCK__MS));
    }
    rlock__tries_up(&server->sub.tries, server->core, now);
    server->sub.heard_at = now;
    server->sub.pinged_at = 0;
    server->sub.is_sharded = rlock__server_is_sharded(server);
    note_untracked(server);
    rlock__channels_up(server);
}

static void note_broken(const struct rlock__server *server)
{
    if (!is_unneeded(server) && !is_outgrown(&server->sub)) {
        rlock__note(server->core, RLOCK_LOG_INFO, rlock__about("subscription", server->address, 0),
                    "server %s: the subscriber connection broke, waiters ask every %d ms meanwhile",
                    server->address, (int)(RLOCK__POLL_US / 1000));
    }
}

void rlock__subscriber_down(struct rlock__server *server, int64_t now)
{
    bool is_broken = !is_outgrown(&server->sub);

    rlock__tries_down(&server->sub.tries, server->core, server->sub.up, now);
    server->sub.tries.broke_at = is_broken ? server->sub.tries.broke_at : 0;
    if (server->sub.up) {
        note_broken(server);
        rlock__channels_down(server);
    }
    assert(!server->sub.up && !server->sub.tries.connecting);
    assert(server->sub.asked == NULL && server->sub.out.len == 0);
}

/* Whether it is this word, or the word for sharded channels, with an s in front. */
static bool is(struct rlock__bytes what, const char *word)
{
    const struct rlock__bytes plain = rlock__bytes_of(word);
    bool sharded = what.len == plain.len + 1 && what.at[0] == 's';

    return rlock__bytes_equal(what, plain) ||
           (sharded && rlock__bytes_equal(rlock__bytes(what.at + 1, plain.len), plain));
}

/* With sharded channels, the words without an s are about the plain channel beside the sharded
 * one. */
static void on_answer(struct rlock__channel *channel, struct rlock__bytes what, bool subscribed)
{
    const char *plain = subscribed ? "subscribe" : "unsubscribe";

    if (channel->server->sub.is_sharded && rlock__bytes_equal(what, rlock__bytes_of(plain))) {
        rlock__channel_plain(channel, subscribed);
    } else {
        rlock__channel_acknowledged(channel, subscribed);
    }
}

/* The key of a tracked channel has changed. */
static void change(struct rlock__channel *channel)
{
    if (channel->is_tracked) {
        channel->server->core->stats.messages++;
        channel->is_armed = false; /* until the answer to the next look, which may be on its way */
        rlock__channel_wake(channel, true);
        rlock__channel_unsettle(channel);
    }
}

static void change_one(struct rlock__server *server, struct rlock__bytes key)
{
    struct rlock__buf *name = &server->core->scratch;
    struct rlock__channel *channel = NULL;

    rlock__buf_clear(name);
    if (rlock__buf_add(name, RLOCK__TRACKED, strlen(RLOCK__TRACKED)) &&
        rlock__buf_add(name, key.at, key.len)) {
        channel = rlock__channel_find(server, rlock__bytes(name->data, name->len));
    }
    if (channel != NULL) {
        change(channel);
    }
}

/* The server tells of changed keys. */
static void on_changes(struct rlock__server *server, const struct rlock__reply *reply)
{
    struct rlock__channel *channel = NULL;

    if (reply->n == 2 && reply->v[1].type == RLOCK__REPLY_NIL) { /* all keys: FLUSHALL, FLUSHDB */
        while ((channel = rlock__channel_next(server, channel)) != NULL) {
            change(channel);
        }
        return;
    }
    for (size_t i = 1; i < reply->n; i++) {
        change_one(server, rlock__reply_str(reply, i));
    }
}

void rlock__subscriber_received(struct rlock__server *server, const struct rlock__reply *reply,
                                int64_t now)
{
    struct rlock__bytes what = rlock__reply_str(reply, 0), name = rlock__reply_str(reply, 1);
    struct rlock__channel *channel;

    assert(server->sub.up);
    server->sub.tries.received = true;
    server->sub.heard_at = now;
    server->sub.pinged_at = 0;
    if (rlock__reply_is_error(reply)) {
        rlock__channel_refused(server, reply);
        return;
    }
    if (!reply->is_array && reply->n == 1 && reply->v[0].type == RLOCK__REPLY_INT) {
        rlock__tracked_looked(server, reply->v[0].num, now);
        return;
    }
    if (reply->is_push && rlock__bytes_equal(what, rlock__bytes_of("invalidate"))) {
        on_changes(server, reply);
        return;
    }
    channel = rlock__channel_find(server, name);
    if (channel == NULL) {
        return;
    }
    if (is(what, "message")) {
        rlock__channel_on_message(channel, rlock__reply_str(reply, 2), now);
    } else if (is(what, "subscribe")) {
        on_answer(channel, what, true);
    } else if (is(what, "unsubscribe")) {
        on_answer(channel, what, false);
    }
}

/* A broken connection that got no FIN looks alive: only an answer proves that it is. */
bool rlock__subscriber_check(struct rlock__server *server, int64_t now)
{
    struct rlock__subscriber *sub = &server->sub;

    if (!sub->up || now < rlock__subscriber_due(server)) {
        return true;
    }
    if (sub->pinged_at != 0 || is_unneeded(server) || is_outgrown(sub)) {
        return false;
    }
    assert(now != 0); /* pinged_at: 0 means never */
    sub->pinged_at = now;
    return rlock__buf_add(&sub->out, "*1\r\n$4\r\nPING\r\n", 14);
}
