/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who waits here for a lock, in the order of arrival, and the channels that wake them. Of one
 * lock's line only the head asks the server, so that 500 local waiters cost one attempt per
 * wake-up.
 *
 * A line next to the lock would have it for ever: it asks again before others have even heard of a
 * release. So clients take turns. After a release of ours that others heard, those who wait here
 * let as many of them go first, and pause for a moment after that release and after each of
 * theirs. Others may wait without hearing anything: for them the line pauses after some releases
 * in any case, for no longer than one more hold of ours would have taken. The announcement of our
 * own release may come before its answer, which says who heard it; so the first pause begins when
 * the release is sent.
 *
 * A channel is live from the acknowledgement of its SUBSCRIBE on. A refusal does not say what it
 * refuses, but answers come in the order of the commands: those that are awaited stand in a line,
 * and each channel has at most one of them; what changed meanwhile is asked for when it was
 * answered.
 */
#include <stdlib.h>
#include <utlist.h>

#include "lock/internal.h"

#define PAUSE_US RLOCK__MS            /* the shortest: a client that hears is there by then */
#define PAUSE_MORE_US (3 * RLOCK__MS) /* and so much more, at random */
#define TURNS 8                       /* releases before a pause for those who hear nothing */

struct rlock__place {
    UT_hash_handle hh;
    struct rlock__core *core;
    struct rlock__bytes key;
    struct rlock__call *line;
    int64_t paused_until;       /* who waits here asks then; 0 at once */
    bool own_due;               /* the channel has yet to speak of our own release */
    int64_t others;             /* so many of those who heard it have not had their turn yet */
    unsigned turns;             /* releases since the last pause */
    int64_t turns_since;        /* the first of them counts from then */
    struct rlock__timer paused; /* the pause is over */
    char bytes[];
};

struct rlock__channel {
    UT_hash_handle hh;
    struct rlock__bytes name;
    struct rlock__channel *asked_prev, *asked_next; /* in server.sub.asked */
    struct rlock__call *waiters;
    enum { NOTHING, SUBSCRIBE, UNSUBSCRIBE } asked; /* what was asked for, and is not answered */
    bool live;                                      /* subscribed, as the server said */
    char bytes[];
};

/* ---- The line ---- */

static struct rlock__place *place_find(struct rlock__core *core, struct rlock__bytes key)
{
    struct rlock__place *place = NULL;

    HASH_FIND(hh, core->places, key.at, key.len, place);
    return place;
}

/* Frees a place that nothing needs. */
static void place_settle(struct rlock__place *place)
{
    if (place->line == NULL && place->paused_until == 0) {
        rlock__timer_unset(&place->core->timers, &place->paused);
        HASH_DEL(place->core->places, place);
        free(place);
    }
}

/* Its head, if it waits for that, has a timer of its own. */
static void on_paused(struct rlock__timer *timer, int64_t now)
{
    struct rlock__place *place =
        (struct rlock__place *)(void *)((char *)timer - offsetof(struct rlock__place, paused));

    (void)now;
    place->paused_until = 0;
    place_settle(place);
}

static struct rlock__place *place_new(struct rlock__core *core, struct rlock__bytes key,
                                      int64_t now)
{
    struct rlock__place *place = calloc(1, sizeof(*place) + key.len);

    if (place == NULL) {
        return NULL;
    }
    memcpy(place->bytes, key.at, key.len);
    place->core = core;
    place->key = rlock__bytes(place->bytes, key.len);
    place->turns_since = now;
    place->paused.fire = on_paused;
    HASH_ADD_KEYPTR(hh, core->places, place->bytes, key.len, place);
    if (place->hh.tbl == NULL) {
        free(place);
        return NULL;
    }
    return place;
}

bool rlock__place_join(struct rlock__call *call, int64_t now)
{
    struct rlock__place *place = place_find(call->core, call->spec->key);

    if (place == NULL) {
        place = place_new(call->core, call->spec->key, now);
    }
    if (place == NULL) {
        return false;
    }
    call->place = place;
    DL_APPEND(place->line, call);
    return true;
}

bool rlock__place_is_head(const struct rlock__call *call)
{
    return call->place->line == call;
}

bool rlock__place_is_kept(const struct rlock__call *call)
{
    return place_find(call->core, call->spec->key) != NULL;
}

int64_t rlock__place_paused_until(const struct rlock__call *call)
{
    return call->place != NULL ? call->place->paused_until : 0;
}

void rlock__place_leave(struct rlock__call *call, int64_t granted_until)
{
    struct rlock__place *place = call->place;
    bool was_head = place->line == call;

    DL_DELETE(place->line, call);
    rlock__unready(call, RLOCK__HEAD);
    call->place = NULL;
    if (place->line == NULL) {
        place_settle(place);
    } else if (was_head) {
        place->line->granted_until = granted_until;
        rlock__ready(place->line, RLOCK__HEAD);
    }
}

/* ---- Channels ---- */

/* Asks the server for what the waiters need, unless a question is open; frees a channel that needs
 * nothing. */
static void channel_settle(struct rlock__core *core, struct rlock__channel *channel)
{
    struct rlock__buf *out = &core->server.sub.out;
    bool wanted = channel->waiters != NULL;

    if (channel->asked != NOTHING) {
        return;
    }
    if (core->server.sub.up && wanted != channel->live) {
        channel->asked = wanted ? SUBSCRIBE : UNSUBSCRIBE;
        DL_APPEND2(core->server.sub.asked, channel, asked_prev, asked_next);
        (void)rlock__buf_add(out, "*2\r\n", 4);
        (void)rlock__buf_add_bulk(out, rlock__bytes_of(wanted ? "SUBSCRIBE" : "UNSUBSCRIBE"));
        (void)rlock__buf_add_bulk(out, channel->name);
    } else if (!wanted) {
        HASH_DEL(core->channels, channel);
        free(channel);
    }
}

static struct rlock__channel *channel_find(struct rlock__core *core, struct rlock__bytes name)
{
    struct rlock__channel *channel = NULL;

    HASH_FIND(hh, core->channels, name.at, name.len, channel);
    return channel;
}

static struct rlock__channel *channel_get(struct rlock__core *core, struct rlock__bytes name)
{
    struct rlock__channel *channel = channel_find(core, name);

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
static void wake(struct rlock__channel *channel, bool lined_up)
{
    struct rlock__call *call;

    DL_FOREACH2(channel->waiters, call, wait_next)
    {
        if (call->kind == RLOCK__LISTEN || lined_up || call->place == NULL) {
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

static bool takes_turns(const struct rlock__spec *spec)
{
    return (spec->ops->caps & RLOCK__CAP_LOCAL_LINE) != 0;
}

static void pause_until(struct rlock__place *place, int64_t until)
{
    place->paused_until = until;
    rlock__timer_set(&place->core->timers, &place->paused, until != 0 ? until : RLOCK__NEVER);
}

void rlock__place_releasing(struct rlock__core *core, const struct rlock__spec *spec, int64_t now)
{
    struct rlock__place *place = takes_turns(spec) ? place_find(core, spec->key) : NULL;
    const struct rlock__channel *channel = channel_find(core, spec->channel);

    if (place != NULL) {
        place->own_due = channel != NULL && channel->live;
        pause_until(place, now + core->op_timeout_us);
    }
}

static int64_t any_pause(struct rlock__core *core)
{
    return PAUSE_US + rlock__random(core, PAUSE_MORE_US + 1);
}

/* How long those who wait here pause after a release: 0 not at all. */
static int64_t pause_after(struct rlock__place *place, int64_t now)
{
    int64_t pause = any_pause(place->core);

    place->turns++;
    if (place->others == 0 && (place->line == NULL || place->turns < TURNS)) {
        return 0;
    }
    if (place->others == 0) {
        pause = rlock__min(pause, (now - place->turns_since) / TURNS);
    }
    place->turns = 0;
    place->turns_since = now;
    return pause;
}

/* receivers: who heard of the release, with the subscription that may be our own. */
static struct rlock__place *take_turns(struct rlock__core *core, const struct rlock__spec *spec,
                                       const struct rlock__channel *channel, int64_t receivers,
                                       int64_t now)
{
    struct rlock__place *place = place_find(core, spec->key);
    bool own = channel != NULL && (channel->live || channel->asked != NOTHING);
    int64_t others = rlock__max(receivers - own, 0), pause;

    if (place == NULL && others != 0 && !core->closed) {
        place = place_new(core, spec->key, now);
    }
    if (place != NULL) {
        place->others = others;
        pause = pause_after(place, now);
        pause_until(place, pause != 0 ? now + pause : 0);
    }
    return place;
}

void rlock__place_wake(struct rlock__core *core, const struct rlock__spec *spec, int64_t receivers,
                       int64_t now)
{
    struct rlock__channel *channel = channel_find(core, spec->channel);
    struct rlock__place *place = takes_turns(spec) ? take_turns(core, spec, channel, receivers, now)
                                                   : place_find(core, spec->key);

    if (place != NULL && place->line != NULL) {
        rlock__ready(place->line, RLOCK__WOKEN);
    } else if (place != NULL) {
        place_settle(place);
    }
    channel = channel_find(core, spec->channel);
    if (channel != NULL) {
        wake(channel, false);
    }
}

/* The channel spoke: of our own release, or of one of others, whose turn is over then. */
static void note_turn(struct rlock__channel *channel, int64_t now)
{
    struct rlock__call *call;

    DL_FOREACH2(channel->waiters, call, wait_next)
    {
        struct rlock__place *place = call->place;

        if (place != NULL && place->own_due) {
            place->own_due = false;
        } else if (place != NULL) {
            place->others -= place->others > 0;
            pause_until(place, place->others > 0 ? now + any_pause(place->core) : 0);
        }
    }
}

static void on_ack(struct rlock__core *core, struct rlock__channel *channel, bool subscribed)
{
    if (channel->asked == NOTHING || answered(core) != channel) {
        return; /* nobody asked */
    }
    channel->asked = NOTHING;
    channel->live = subscribed;
    core->server.sub.refused = core->server.sub.refused && !subscribed;
    if (subscribed) {
        wake(channel, true);
    }
    channel_settle(core, channel);
}

/* The waiters of the channel poll, until somebody asks for it anew. */
static void on_refusal(struct rlock__core *core, const struct rlock__reply *reply)
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
        channel->asked = NOTHING;
        if (channel->waiters == NULL) {
            channel_settle(core, channel);
        }
    }
}

void rlock__channels_reply(struct rlock__core *core, const struct rlock__reply *reply, int64_t now)
{
    struct rlock__bytes what = rlock__reply_str(reply, 0), name = rlock__reply_str(reply, 1);
    struct rlock__channel *channel;

    if (rlock__reply_is_error(reply)) {
        on_refusal(core, reply);
        return;
    }
    channel = channel_find(core, name);
    if (channel == NULL) {
        return;
    }
    if (rlock__bytes_equal(what, rlock__bytes_of("message"))) {
        note_turn(channel, now);
        wake(channel, true);
    } else if (rlock__bytes_equal(what, rlock__bytes_of("subscribe"))) {
        on_ack(core, channel, true);
    } else if (rlock__bytes_equal(what, rlock__bytes_of("unsubscribe"))) {
        on_ack(core, channel, false);
    }
}

void rlock__channels_up(struct rlock__core *core)
{
    struct rlock__channel *channel, *after;

    rlock__channels_down(core);
    core->server.sub.up = true;
    HASH_ITER(hh, core->channels, channel, after) {
        channel_settle(core, channel);
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
        channel->asked = NOTHING;
        channel->live = false;
        DL_FOREACH2(channel->waiters, call, wait_next)
        {
            if (call->kind == RLOCK__ACQUIRE) {
                rlock__ready(call, RLOCK__DEAF);
            }
        }
        channel_settle(core, channel);
    }
}

void rlock__places_fini(struct rlock__core *core)
{
    struct rlock__channel *channel, *after;
    struct rlock__place *place, *place_after;

    HASH_ITER(hh, core->places, place, place_after) {
        place->paused_until = 0;
        place_settle(place);
    }
    HASH_ITER(hh, core->channels, channel, after) {
        HASH_DEL(core->channels, channel);
        free(channel);
    }
}
