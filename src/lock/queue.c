/* SPDX-License-Identifier: Apache-2.0 */
#include "lock/queue.h"

#include <stdlib.h>
#include <utlist.h>

#include "lock/channel.h"
#include "lock/internal.h"

#define PAUSE_US RLOCK__MS            /* the shortest: a client that hears is there by then */
#define PAUSE_MORE_US (3 * RLOCK__MS) /* and so much more, at random */
#define TURNS 8                       /* releases before a pause for those who hear nothing */

struct rlock__queue {
    UT_hash_handle hh;
    struct rlock__core *core;
    struct rlock__bytes key;
    struct rlock__call *calls;
    int64_t paused_until;       /* who waits here asks then; 0 at once */
    bool own_due;               /* the channel has yet to speak of our own release */
    int64_t others;             /* so many of those who heard it have not had their turn yet */
    unsigned turns;             /* releases since the last pause */
    int64_t turns_since;        /* the first of them counts from then */
    struct rlock__timer paused; /* the pause is over */
    char bytes[];
};

static struct rlock__queue *queue_find(struct rlock__core *core, struct rlock__bytes key)
{
    struct rlock__queue *queue = NULL;

    HASH_FIND(hh, core->queues, key.at, key.len, queue);
    return queue;
}

/* Frees a queue that nothing needs. */
static void queue_settle(struct rlock__queue *queue)
{
    if (queue->calls == NULL && queue->paused_until == 0) {
        rlock__timer_unset(&queue->core->timers, &queue->paused);
        HASH_DEL(queue->core->queues, queue);
        free(queue);
    }
}

/* Its head, if it waits for that, has a timer of its own. */
static void on_paused(struct rlock__timer *timer, int64_t now)
{
    struct rlock__queue *queue =
        (struct rlock__queue *)(void *)((char *)timer - offsetof(struct rlock__queue, paused));

    (void)now;
    queue->paused_until = 0;
    queue_settle(queue);
}

static struct rlock__queue *queue_new(struct rlock__core *core, struct rlock__bytes key,
                                      int64_t now)
{
    struct rlock__queue *queue = calloc(1, sizeof(*queue) + key.len);

    if (queue == NULL) {
        return NULL;
    }
    memcpy(queue->bytes, key.at, key.len);
    queue->core = core;
    queue->key = rlock__bytes(queue->bytes, key.len);
    queue->turns_since = now;
    queue->paused.fire = on_paused;
    HASH_ADD_KEYPTR(hh, core->queues, queue->bytes, key.len, queue);
    if (queue->hh.tbl == NULL) {
        free(queue);
        return NULL;
    }
    return queue;
}

bool rlock__queue_join(struct rlock__call *call, int64_t now)
{
    struct rlock__queue *queue = queue_find(call->core, call->spec->key);

    if (queue == NULL) {
        queue = queue_new(call->core, call->spec->key, now);
    }
    if (queue == NULL) {
        return false;
    }
    call->queue = queue;
    DL_APPEND(queue->calls, call);
    return true;
}

bool rlock__queue_is_head(const struct rlock__call *call)
{
    return call->queue->calls == call;
}

bool rlock__queue_is_kept(const struct rlock__call *call)
{
    return queue_find(call->core, call->spec->key) != NULL;
}

int64_t rlock__queue_paused_until(const struct rlock__call *call)
{
    return call->queue != NULL ? call->queue->paused_until : 0;
}

void rlock__queue_leave(struct rlock__call *call, int64_t granted_until)
{
    struct rlock__queue *queue = call->queue;
    bool was_head = queue->calls == call;

    DL_DELETE(queue->calls, call);
    rlock__unready(call, RLOCK__HEAD);
    call->queue = NULL;
    if (queue->calls == NULL) {
        queue_settle(queue);
    } else if (was_head) {
        queue->calls->granted_until = granted_until;
        rlock__ready(queue->calls, RLOCK__HEAD);
    }
}

/* ---- Turns ---- */

static bool takes_turns(const struct rlock__spec *spec)
{
    return (spec->ops->caps & RLOCK__CAP_WAIT_QUEUE) != 0;
}

static void pause_until(struct rlock__queue *queue, int64_t until)
{
    queue->paused_until = until;
    rlock__timer_set(&queue->core->timers, &queue->paused, until != 0 ? until : RLOCK__NEVER);
}

void rlock__queue_releasing(struct rlock__core *core, const struct rlock__spec *spec, int64_t now)
{
    struct rlock__queue *queue = takes_turns(spec) ? queue_find(core, spec->key) : NULL;
    const struct rlock__channel *channel =
        rlock__channel_find(rlock__route(spec)->server, spec->channel);

    if (queue != NULL) {
        queue->own_due = channel != NULL && channel->live;
        pause_until(queue, now + core->op_timeout_us);
    }
}

static int64_t any_pause(struct rlock__core *core)
{
    return PAUSE_US + rlock__random(core, PAUSE_MORE_US + 1);
}

/* How long those who wait here pause after a release: 0 not at all. */
static int64_t pause_after(struct rlock__queue *queue, int64_t now)
{
    int64_t pause = any_pause(queue->core);

    queue->turns++;
    if (queue->others == 0 && (queue->calls == NULL || queue->turns < TURNS)) {
        return 0;
    }
    if (queue->others == 0) {
        pause = rlock__min(pause, (now - queue->turns_since) / TURNS);
    }
    queue->turns = 0;
    queue->turns_since = now;
    return pause;
}

/* receivers: who heard of the release, with the subscription that may be our own. */
static struct rlock__queue *take_turns(struct rlock__core *core, const struct rlock__spec *spec,
                                       const struct rlock__channel *channel, int64_t receivers,
                                       int64_t now)
{
    struct rlock__queue *queue = queue_find(core, spec->key);
    bool own = channel != NULL && (channel->live || channel->asked != RLOCK__ASKED_NOTHING);
    int64_t others = rlock__max(receivers - own, 0), pause;

    if (queue == NULL && others != 0 && !core->closed) {
        queue = queue_new(core, spec->key, now);
    }
    if (queue != NULL) {
        queue->others = others;
        pause = pause_after(queue, now);
        pause_until(queue, pause != 0 ? now + pause : 0);
    }
    return queue;
}

void rlock__queue_released(struct rlock__core *core, const struct rlock__spec *spec,
                           int64_t receivers, int64_t now)
{
    struct rlock__channel *channel = rlock__channel_find(rlock__route(spec)->server, spec->channel);
    struct rlock__queue *queue = takes_turns(spec) ? take_turns(core, spec, channel, receivers, now)
                                                   : queue_find(core, spec->key);

    if (queue != NULL && queue->calls != NULL) {
        rlock__ready(queue->calls, RLOCK__WOKEN);
    } else if (queue != NULL) {
        queue_settle(queue);
    }
    if (channel != NULL) {
        rlock__channel_wake(channel, false);
    }
}

void rlock__queue_heard(struct rlock__call *call, int64_t now)
{
    struct rlock__queue *queue = call->queue;

    if (queue != NULL && queue->own_due) {
        queue->own_due = false;
    } else if (queue != NULL) {
        queue->others -= queue->others > 0;
        pause_until(queue, queue->others > 0 ? now + any_pause(queue->core) : 0);
    }
}

void rlock__queues_fini(struct rlock__core *core)
{
    struct rlock__queue *queue, *after;

    HASH_ITER(hh, core->queues, queue, after) {
        queue->paused_until = 0;
        queue_settle(queue);
    }
}
