/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who waits here for a lock, in the order of arrival, and the channels that wake them. Of one
 * lock's line only the head asks the server, so that 500 local waiters cost one attempt per
 * wake-up.
 *
 * A channel is live from the acknowledgement of its SUBSCRIBE on. A refusal does not say what it
 * refuses, but answers come in the order of the commands: those that are awaited stand in a line,
 * and each channel has at most one of them; what changed meanwhile is asked for when it was
 * answered.
 */
#include <stdlib.h>
#include <utlist.h>

#include "lock/internal.h"

struct rlock__place {
    UT_hash_handle hh;
    struct rlock__bytes key;
    struct rlock__call *line;
    char bytes[];
};

struct rlock__channel {
    UT_hash_handle hh;
    struct rlock__bytes name;
    struct rlock__channel *asked_prev, *asked_next; /* in server.asked */
    struct rlock__call *waiters;
    enum { NOTHING, SUBSCRIBE, UNSUBSCRIBE } asked; /* what was asked for, and is not answered */
    bool live;                                      /* subscribed, as the server said */
    bool busy;                                      /* its waiters are being woken */
    char bytes[];
};

/* ---- The line ---- */

static struct rlock__place *place_find(struct rlock__core *core, struct rlock__bytes key)
{
    struct rlock__place *place = NULL;

    HASH_FIND(hh, core->places, key.at, key.len, place);
    return place;
}

bool rlock__place_join(struct rlock__call *call)
{
    struct rlock__core *core = call->core;
    struct rlock__bytes key = call->spec->key;
    struct rlock__place *place = place_find(core, key);

    if (place == NULL) {
        place = calloc(1, sizeof(*place) + key.len);
        if (place == NULL) {
            return false;
        }
        memcpy(place->bytes, key.at, key.len);
        place->key = rlock__bytes(place->bytes, key.len);
        HASH_ADD_KEYPTR(hh, core->places, place->bytes, key.len, place);
        if (place->hh.tbl == NULL) {
            free(place);
            return false;
        }
    }
    call->place = place;
    DL_APPEND(place->line, call);
    return true;
}

bool rlock__place_is_head(const struct rlock__call *call)
{
    return call->place->line == call;
}

bool rlock__place_has_line(const struct rlock__call *call)
{
    return place_find(call->core, call->spec->key) != NULL;
}

void rlock__place_leave(struct rlock__call *call, int64_t granted_until, int64_t now)
{
    struct rlock__place *place = call->place;
    bool was_head = place->line == call;

    DL_DELETE(place->line, call);
    call->place = NULL;
    if (place->line == NULL) {
        HASH_DEL(call->core->places, place);
        free(place);
    } else if (was_head) {
        rlock__acquire_head(place->line, granted_until, now);
    }
}

/* ---- Channels ---- */

/* Asks the server for what the waiters need, unless a question is open; frees a channel that needs
 * nothing. */
static void channel_settle(struct rlock__core *core, struct rlock__channel *channel)
{
    struct rlock__buf *out = &core->server.sub_out;
    bool wanted = channel->waiters != NULL;

    if (channel->busy || channel->asked != NOTHING) {
        return;
    }
    if (core->server.sub_up && wanted != channel->live) {
        channel->asked = wanted ? SUBSCRIBE : UNSUBSCRIBE;
        DL_APPEND2(core->server.asked, channel, asked_prev, asked_next);
        (void)rlock__buf_add(out, "*2\r\n", 4);
        (void)rlock__buf_add_bulk(out, rlock__bytes_of(wanted ? "SUBSCRIBE" : "UNSUBSCRIBE"));
        (void)rlock__buf_add_bulk(out, channel->name);
    } else if (!wanted) {
        HASH_DEL(core->channels, channel);
        free(channel);
    }
}

static struct rlock__channel *channel_get(struct rlock__core *core, struct rlock__bytes name)
{
    struct rlock__channel *channel = NULL;

    HASH_FIND(hh, core->channels, name.at, name.len, channel);
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
    struct rlock__channel *channel = channel_get(core, channel_name(call));

    if (channel == NULL) {
        return false;
    }
    call->channel = channel;
    DL_APPEND2(channel->waiters, call, wait_prev, wait_next);
    channel_settle(core, channel);
    return true;
}

void rlock__channel_leave(struct rlock__call *call)
{
    struct rlock__channel *channel = call->channel;

    call->channel = NULL;
    DL_DELETE2(channel->waiters, call, wait_prev, wait_next);
    channel_settle(call->core, channel);
}

bool rlock__channel_is_live(const struct rlock__call *call)
{
    return call->channel != NULL && call->channel->live && call->channel->asked == NOTHING;
}

/* Each waiter looks again, or each that is in no line. */
static void wake(struct rlock__core *core, struct rlock__channel *channel, bool lined_up,
                 int64_t now)
{
    struct rlock__call *call, *after;

    channel->busy = true; /* outlives its waiters meanwhile */
    DL_FOREACH_SAFE2(channel->waiters, call, after, wait_next)
    {
        if (lined_up || call->place == NULL) {
            rlock__acquire_wake(call, now);
        }
    }
    channel->busy = false;
    channel_settle(core, channel);
}

/* The channel whose command is answered next, taken out of the line. */
static struct rlock__channel *answered(struct rlock__core *core)
{
    struct rlock__channel *channel = core->server.asked;

    if (channel != NULL) {
        DL_DELETE2(core->server.asked, channel, asked_prev, asked_next);
    }
    return channel;
}

void rlock__place_wake(struct rlock__core *core, const struct rlock__spec *spec, int64_t now)
{
    struct rlock__place *place = place_find(core, spec->key);
    struct rlock__channel *channel = NULL;

    if (place != NULL) {
        rlock__acquire_wake(place->line, now);
    }
    HASH_FIND(hh, core->channels, spec->channel.at, spec->channel.len, channel);
    if (channel != NULL) {
        wake(core, channel, false, now);
    }
}

static void on_ack(struct rlock__core *core, struct rlock__channel *channel, bool subscribed,
                   int64_t now)
{
    if (channel->asked == NOTHING || answered(core) != channel) {
        return; /* nobody asked */
    }
    channel->asked = NOTHING;
    channel->live = subscribed;
    core->server.sub_refused = core->server.sub_refused && !subscribed;
    if (subscribed) {
        wake(core, channel, true, now);
    } else {
        channel_settle(core, channel);
    }
}

/* The waiters of the channel poll, until somebody asks for it anew. */
static void on_refusal(struct rlock__core *core, const struct rlock__reply *reply)
{
    struct rlock__channel *channel = answered(core);
    char text[160];

    if (!core->server.sub_refused) {
        rlock__note(core, RLOCK_LOG_WARNING,
                    "server %s refuses a subscription, waiters ask every %d ms instead: %s",
                    core->address, (int)(RLOCK__POLL_US / 1000),
                    rlock__text(rlock__reply_str(reply, 0), text, sizeof(text)));
    }
    core->server.sub_refused = true;
    if (channel != NULL) {
        channel->asked = NOTHING;
        if (channel->waiters == NULL) {
            channel_settle(core, channel);
        }
    }
}

void rlock__channels_reply(struct rlock__core *core, const struct rlock__reply *reply, int64_t now)
{
    struct rlock__bytes what = rlock__reply_str(reply, 0), name = rlock__reply_str(reply, 1);
    struct rlock__channel *channel = NULL;

    if (rlock__reply_is_error(reply)) {
        on_refusal(core, reply);
        return;
    }
    HASH_FIND(hh, core->channels, name.at, name.len, channel);
    if (channel == NULL) {
        return;
    }
    if (rlock__bytes_equal(what, rlock__bytes_of("message"))) {
        wake(core, channel, true, now);
    } else if (rlock__bytes_equal(what, rlock__bytes_of("subscribe"))) {
        on_ack(core, channel, true, now);
    } else if (rlock__bytes_equal(what, rlock__bytes_of("unsubscribe"))) {
        on_ack(core, channel, false, now);
    }
}

void rlock__channels_up(struct rlock__core *core, int64_t now)
{
    struct rlock__channel *channel, *after;

    rlock__channels_down(core, now);
    core->server.sub_up = true;
    HASH_ITER(hh, core->channels, channel, after) {
        channel_settle(core, channel);
    }
}

void rlock__channels_down(struct rlock__core *core, int64_t now)
{
    struct rlock__channel *channel, *after;

    core->server.sub_up = false;
    core->server.asked = NULL;
    rlock__buf_clear(&core->server.sub_out);
    HASH_ITER(hh, core->channels, channel, after) {
        channel->asked = NOTHING;
        channel->live = false;
        if (channel->waiters != NULL) {
            rlock__acquire_unheard(channel->waiters, now);
        }
        channel_settle(core, channel);
    }
}

void rlock__places_fini(struct rlock__core *core)
{
    struct rlock__channel *channel, *after;

    HASH_ITER(hh, core->channels, channel, after) {
        HASH_DEL(core->channels, channel);
        free(channel);
    }
}
